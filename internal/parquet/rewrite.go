package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// rewrittenChunk replaces a chunk of the open row group that the library cannot decode:
// fixed-length values as DELTA_BYTE_ARRAY, which parquet-mr writes in version 2 pages, and INT32 as
// DELTA_BINARY_PACKED, of which the library refuses deltas that exceed 32 bits. It has plain values,
// uncompressed.
type rewrittenChunk struct {
	content    []byte // scratch memory
	at         int64  // its offset, past the end of the file
	dictionary int64  // bytes of the dictionary page
}

// rewrite allocates and writes the replacement of a leaf's chunk, and returns its
// page.Stats.
func (r *Reader) rewrite(leaf int, c *page.Stats) (out page.Stats, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	described := r.file.meta.Schema.Column(leaf)
	width := page.MinValueWidth(described)
	if c.MaxPageValues > page.MaxBytes/max(width, 1) {
		return out, page.ErrSize
	}
	size := c.PlainBytes(width)
	if err := r.scratch.Extend(c.DecoderMemory(r.codec(leaf), described) + size); err != nil {
		return out, err
	}
	from, err := r.pages(leaf)
	if err != nil {
		return out, err
	}
	defer from.Release()
	room, last := r.scratch.Allocate(int(size)), r.scratch.Allocate(int(width))
	defer r.scratch.Free(last)
	at := r.source.add(room, false)
	made, err := decoder.Replace(from, described, room, last)
	r.group.rewritten[leaf] = rewrittenChunk{content: made.Content, at: at, dictionary: made.Dictionary}
	return made.Stats, err
}

// viewedByLibrary makes the views of the leaves that the library decodes readable, and returns
// where they begin.
func (r *Reader) viewedByLibrary() map[int]int64 {
	out := map[int]int64{}
	for _, c := range r.columns {
		if c.field < 0 || r.decodes(c) {
			continue
		}
		for _, leaf := range c.leaves {
			if v, ok := r.group.views[leaf]; ok && r.group.rewritten[leaf].content == nil {
				out[leaf] = r.source.add(v.Dictionary, true)
				r.source.add(v.Body, true)
			}
		}
	}
	return out
}

// rewrittenFooter returns the file's footer with the rewritten chunks of the open row
// group, and the views that begin at some offsets, in place of the originals.
func (r *Reader) rewrittenFooter(views map[int]int64) *metadata.FileMetaData {
	out, inner := *r.file.meta, *r.file.meta.FileMetaData
	out.FileMetaData = &inner
	inner.RowGroups = slices.Clone(inner.RowGroups)
	group := *inner.RowGroups[r.group.index]
	inner.RowGroups[r.group.index] = &group
	group.Columns = slices.Clone(group.Columns)
	place := func(leaf int, at, dictionary, size int64) {
		chunk := *group.Columns[leaf]
		described := *chunk.MetaData
		group.Columns[leaf], chunk.MetaData = &chunk, &described
		chunk.OffsetIndexOffset, chunk.ColumnIndexOffset = nil, nil
		described.EncodingStats = nil
		described.DataPageOffset, described.DictionaryPageOffset = at+dictionary, nil
		if dictionary > 0 {
			described.DictionaryPageOffset = &at
		}
		described.TotalCompressedSize = size
		if v, ok := r.group.views[leaf]; ok {
			described.NumValues = v.Values
		}
	}
	for leaf, w := range r.group.rewritten {
		place(leaf, w.at, w.dictionary, int64(len(w.content)))
		described := group.Columns[leaf].MetaData
		described.Codec, described.TotalUncompressedSize = 0, int64(len(w.content)) // not compressed
	}
	for leaf, at := range views {
		v := r.group.views[leaf]
		place(leaf, at, int64(len(v.Dictionary)), int64(len(v.Dictionary)+len(v.Body)))
	}
	return &out
}
