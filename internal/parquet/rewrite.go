package parquet

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

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

// mustRewrite reports whether the library cannot decode a chunk.
func mustRewrite(c *page.Stats, described *schema.Column) bool {
	return c.HasDeltas && (described.PhysicalType() == parquet.Types.FixedLenByteArray || described.PhysicalType() == parquet.Types.Int32)
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
	if err := r.scratch.extend(c.DecoderMemory(r.codec(leaf), described) + size); err != nil {
		return out, err
	}
	from, err := r.pages(leaf)
	if err != nil {
		return out, err
	}
	defer from.Release()
	w := chunkRewriter{described: described, out: r.scratch.Allocate(int(size))[:0], last: r.scratch.Allocate(int(width))}
	defer r.scratch.Free(w.last)
	made := rewrittenChunk{at: r.source.add(w.out[:size], false)}
	err = w.pages(from)
	made.content, made.dictionary = w.out, w.dictionary
	r.group.rewritten[leaf] = made
	return w.stats, err
}

// chunkRewriter writes pages with plain values or dictionary indices.
type chunkRewriter struct {
	described  *schema.Column
	out        []byte
	last       []byte // room for a value
	dictionary int64
	stats      page.Stats // of the written pages
}

func (w *chunkRewriter) pages(from *page.Reader) error {
	for {
		p, err := from.Next()
		if p == nil || err != nil {
			return err
		}
		stored := w.described.PhysicalType()
		switch {
		case p.Encoding == parquet.Encodings.DeltaByteArray && stored == parquet.Types.FixedLenByteArray && !p.Dictionary:
			err = w.deltas(p)
		case p.Encoding == parquet.Encodings.DeltaBinaryPacked && stored == parquet.Types.Int32 && !p.Dictionary:
			err = w.numbers(p)
		default:
			w.page(p, len(p.Values), func() { w.out = append(w.out, p.Values...) })
		}
		if err != nil {
			return err
		}
	}
}

// deltas writes a page of fixed-length bytes as deltas as a plain page.
func (w *chunkRewriter) deltas(p *page.Page) error {
	if len(p.Values) == 0 && w.described.MaxDefinitionLevel() == 0 {
		return errDeltas
	}
	width := w.described.TypeLength()
	from := valueDecoder{form: fixedBytes, width: width, last: w.last}
	if err := from.openDeltas(p); err != nil {
		return err
	}
	n := from.deltas.suffixes.left
	return w.plain(p, n, width, func(out []byte) error {
		if err := from.takeDeltas(out, n); err != nil {
			return err
		}
		if len(from.values) > 0 {
			return errDeltas
		}
		return nil
	})
}

// numbers writes a page of INT32 as deltas as a plain page.
func (w *chunkRewriter) numbers(p *page.Page) error {
	var from deltaDecoder
	if len(p.Values) > 0 || w.described.MaxDefinitionLevel() == 0 { // a page of nulls may be empty
		var err error
		if from, err = newDeltaDecoder(p.Values, p.Count); err != nil {
			return err
		}
	}
	from.values = true
	return w.plain(p, from.left, arrow.Int32SizeBytes, func(out []byte) error {
		var window [valueWindow]int32
		for len(out) > 0 {
			some := window[:min(len(out)/arrow.Int32SizeBytes, valueWindow)]
			if err := from.read(some); err != nil {
				return err
			}
			out = out[copy(out, arrow.Int32Traits.CastToBytes(some)):]
		}
		return nil
	})
}

// plain writes a page of n values of a width as a plain page. values writes the values. The page must have exactly
// one for each maximum definition level.
func (w *chunkRewriter) plain(p *page.Page, n, width int, values func(out []byte) error) error {
	if n != countDefined(p, int(w.described.MaxDefinitionLevel())) {
		return errDeltas
	}
	p.Encoding = parquet.Encodings.Plain
	before, err := len(w.out), error(nil)
	w.page(p, n*width, func() {
		at := len(w.out)
		w.out = append(w.out, make([]byte, n*width)...)
		err = values(w.out[at:])
	})
	if err != nil {
		w.out = w.out[:before]
	}
	return err
}

// countDefined returns how many of a page's definition levels are the maximum, or -1 if
// they cannot be decoded.
func countDefined(p *page.Page, maxLevel int) int {
	if maxLevel == 0 {
		return p.Count
	}
	levels := rleDecoder{rest: p.Definition, width: bits.Len(uint(maxLevel))}
	var window [levelWindow]byte
	present := 0
	for left := p.Count; left > 0; left -= levelWindow {
		n := min(left, levelWindow)
		if levels.bytes(window[:n]) != nil {
			return -1
		}
		for _, level := range window[:n] {
			if int(level) == maxLevel {
				present++
			}
		}
	}
	return present
}

// page writes a version 1 page. size is the number of bytes that values appends.
func (w *chunkRewriter) page(p *page.Page, size int, values func()) {
	h := page.Header{Kind: page.Data, Count: int64(p.Count), Encoding: int64(p.Encoding), Uncompressed: int64(size)}
	if p.Dictionary {
		h.Kind, h.Encoding = page.Dictionary, int64(parquet.Encodings.Plain)
	}
	levels := [][]byte{}
	if w.described.MaxRepetitionLevel() > 0 && !p.Dictionary {
		levels = append(levels, p.Repetition)
	}
	if w.described.MaxDefinitionLevel() > 0 && !p.Dictionary {
		levels = append(levels, p.Definition)
	}
	for _, l := range levels {
		h.Uncompressed += 4 + int64(len(l))
	}
	h.Stored = h.Uncompressed
	before := len(w.out)
	w.out = h.Append(w.out)
	header := int64(len(w.out) - before)
	for _, l := range levels {
		w.out = append(binary.LittleEndian.AppendUint32(w.out, uint32(len(l))), l...)
	}
	values()
	if p.Dictionary {
		w.dictionary = int64(len(w.out))
	}
	w.stats.Count(&h, header)
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
				out[leaf] = r.source.add(v.dictionary, true)
				r.source.add(v.body, true)
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
			described.NumValues = v.values
		}
	}
	for leaf, w := range r.group.rewritten {
		place(leaf, w.at, w.dictionary, int64(len(w.content)))
		described := group.Columns[leaf].MetaData
		described.Codec, described.TotalUncompressedSize = 0, int64(len(w.content)) // not compressed
	}
	for leaf, at := range views {
		v := r.group.views[leaf]
		place(leaf, at, int64(len(v.dictionary)), int64(len(v.dictionary)+len(v.body)))
	}
	return &out
}
