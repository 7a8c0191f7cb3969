package parquet

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// rewritten is what stands for a chunk of the open row group that the library cannot
// decode: values of fixed length as DELTA_BYTE_ARRAY, as parquet-mr has them in pages
// of its second version. They are plain there, and nothing is compressed.
type rewritten struct {
	content    []byte // memory of the row group's allowance
	at         int64  // where the library finds it: behind the end of the file
	dictionary int64  // bytes of the dictionary's page
}

// mostHeader is more than a page header takes that says as little as those here.
const mostHeader = 64

// mustRewrite says whether the library cannot decode a chunk.
func mustRewrite(c *census, described *schema.Column) bool {
	return c.deltas && described.PhysicalType() == parquet.Types.FixedLenByteArray
}

// rewrite makes room for what stands for a leaf's chunk, and makes it. It returns
// the chunk's census after that.
func (r *Reader) rewrite(leaf int, c *census) (out census, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	described := r.file.meta.Schema.Column(leaf)
	if c.most > mostPage/int64(described.TypeLength()) {
		return out, errPageSize
	}
	most := c.unpacked(described.TypeLength())
	if err := r.scratch.extend(c.ownMemory(r.codec(leaf), described) + most); err != nil {
		return out, err
	}
	if err := r.account.ask(c.lengthsMemory(), 0); err != nil {
		return out, err
	}
	defer r.account.giveBack(c.lengthsMemory())
	from, err := r.file.newPages(r.group, leaf, r.source.loaded(r.file.chunkSpan(r.group, leaf)), r.scratch)
	if err != nil {
		return out, err
	}
	defer from.close()
	w := rewriter{described: described, out: r.scratch.Allocate(int(most))[:0]}
	made := rewritten{at: r.source.add(w.out[:most])}
	err = w.pages(from)
	made.content, made.dictionary = w.out, w.dictionary
	r.rewritten[leaf] = made
	return w.census, err
}

// unpacked bounds the bytes of pages whose values are plain.
func (c *census) unpacked(width int) int64 {
	return c.plain + c.values*int64(width) + c.pages*mostHeader
}

// lengthsMemory is what the lengths of a page's values and prefixes take.
func (c *census) lengthsMemory() int64 { return 2 * 4 * c.most }

// rewriter writes pages whose values are plain, or indices.
type rewriter struct {
	described  *schema.Column
	out        []byte
	dictionary int64
	census     census // of what is written
}

func (w *rewriter) pages(from *pages) error {
	for {
		p, err := from.next()
		if p == nil || err != nil {
			return err
		}
		if p.encoding == parquet.Encodings.DeltaByteArray && !p.dictionary {
			err = w.deltas(p)
		} else {
			w.page(p, len(p.values), func() { w.out = append(w.out, p.values...) })
		}
		if err != nil {
			return err
		}
	}
}

// deltas writes a page of deltas as a plain one. It holds a value for each level that
// says so.
func (w *rewriter) deltas(p *page) error {
	var d textDeltas
	if len(p.values) > 0 || w.described.MaxDefinitionLevel() == 0 {
		var err error
		if d, err = newTextDeltas(p.values, p.count); err != nil {
			return err
		}
	}
	width, n := w.described.TypeLength(), len(d.prefixes)
	if n != presentIn(p, int(w.described.MaxDefinitionLevel())) || !d.fixed(width) {
		return errDeltas
	}
	p.encoding = parquet.Encodings.Plain
	w.page(p, n*width, func() {
		for i, prefix := range d.prefixes {
			if prefix > 0 { // of the value before
				w.out = append(w.out, w.out[len(w.out)-width:][:prefix]...)
			}
			suffix := d.suffixes[i]
			w.out, d.rest = append(w.out, d.rest[:suffix]...), d.rest[suffix:]
		}
	})
	return nil
}

// presentIn returns how many of a page's levels say that there is a value; -1 if they
// cannot be read.
func presentIn(p *page, most int) int {
	if most == 0 {
		return p.count
	}
	levels := hybrid{rest: p.definition, width: bits.Len(uint(most))}
	var window [levelWindow]byte
	present := 0
	for left := p.count; left > 0; left -= levelWindow {
		n := min(left, levelWindow)
		if levels.numbers(window[:n]) != nil {
			return -1
		}
		for _, level := range window[:n] {
			if int(level) == most {
				present++
			}
		}
	}
	return present
}

// page writes a page of the first version, with so many bytes of values.
func (w *rewriter) page(p *page, size int, values func()) {
	h := pageHeader{kind: pageData, count: int64(p.count), encoding: int64(p.encoding), plain: int64(size)}
	if p.dictionary {
		h.kind, h.encoding = pageDictionary, int64(parquet.Encodings.Plain)
	}
	levels := [][]byte{}
	if w.described.MaxRepetitionLevel() > 0 && !p.dictionary {
		levels = append(levels, p.repetition)
	}
	if w.described.MaxDefinitionLevel() > 0 && !p.dictionary {
		levels = append(levels, p.definition)
	}
	for _, l := range levels {
		h.plain += 4 + int64(len(l))
	}
	h.size = h.plain
	before := len(w.out)
	w.out = h.append(w.out)
	header := int64(len(w.out) - before)
	for _, l := range levels {
		w.out = append(binary.LittleEndian.AppendUint32(w.out, uint32(len(l))), l...)
	}
	values()
	if p.dictionary {
		w.dictionary = int64(len(w.out))
	}
	w.census.count(&h, header)
}

// append writes a header of a page of the first version, or a dictionary's, in the
// compact protocol.
func (h *pageHeader) append(out []byte) []byte {
	number := func(v int64) { out = binary.AppendVarint(append(out, 1<<4|thriftI32), v) } // the next field
	number(h.kind)
	number(h.plain)
	number(h.size)
	field := byte(headerData)
	if h.kind == pageDictionary {
		field = headerDictionary
	}
	out = append(out, (field-headerStoredSize)<<4|thriftStruct)
	number(h.count)
	number(h.encoding)
	if h.kind == pageData {
		number(int64(parquet.Encodings.RLE))
		number(int64(parquet.Encodings.RLE))
	}
	return append(out, 0, 0)
}

// footerOf returns the file's footer, in which the rewritten chunks of the open row group
// are where they are.
func (r *Reader) footerOf() *metadata.FileMetaData {
	out, inner := *r.file.meta, *r.file.meta.FileMetaData
	out.FileMetaData = &inner
	inner.RowGroups = slices.Clone(inner.RowGroups)
	group := *inner.RowGroups[r.group]
	inner.RowGroups[r.group] = &group
	group.Columns = slices.Clone(group.Columns)
	for leaf, w := range r.rewritten {
		chunk := *group.Columns[leaf]
		described := *chunk.MetaData
		group.Columns[leaf], chunk.MetaData = &chunk, &described
		chunk.OffsetIndexOffset, chunk.ColumnIndexOffset = nil, nil
		described.Codec, described.EncodingStats = 0, nil // not compressed
		described.DataPageOffset, described.DictionaryPageOffset = w.at+w.dictionary, nil
		if at := w.at; w.dictionary > 0 {
			described.DictionaryPageOffset = &at
		}
		described.TotalCompressedSize = int64(len(w.content))
		described.TotalUncompressedSize = int64(len(w.content))
	}
	return &out
}
