package decoder

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/page"
)

// Replacement is an uncompressed copy of a column chunk, with plain values or dictionary indices.
type Replacement struct {
	Content    []byte
	Dictionary int64      // size of the dictionary page in bytes
	Stats      page.Stats // of the pages
}

// MustReplace reports whether the library cannot decode a chunk.
func MustReplace(c *page.Stats, described *schema.Column) bool {
	return c.HasDeltas && (described.PhysicalType() == parquet.Types.FixedLenByteArray || described.PhysicalType() == parquet.Types.Int32)
}

// Replace rewrites a chunk for which MustReplace returns true, so that arrow-go can decode it. The
// buffer out must have room for the rewritten pages, and the buffer last for one value.
func Replace(from *page.Reader, of *schema.Column, out, last []byte) (Replacement, error) {
	w := chunkRewriter{described: of, out: out[:0], last: last}
	err := w.pages(from)
	return Replacement{Content: w.out, Dictionary: w.dictionary, Stats: w.stats}, err
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

// deltas rewrites a page of delta-encoded, fixed-length byte arrays as a plain page.
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

// numbers rewrites a page of delta-encoded INT32 values as a plain page.
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

// plain rewrites a page as a plain page of n values of width bytes each, which the function values
// writes. n must be the number of definition levels of the page that equal the maximum.
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

// countDefined returns how many of a page's definition levels equal the maximum, or -1 if the
// levels cannot be decoded.
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

// page writes a version 1 page. The function values appends the page's values, which have size
// bytes, to w.out.
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
