package tensor

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Numbers are cast and packed in chunks, of as many numbers or bytes.
const chunkNumbers, chunkBytes = 512, 8 * 512

// writer writes the elements of one column of one batch.
type writer struct {
	column  *column
	numbers numbers
	nulls   validity // of the elements
	fill    []byte   // of null elements
	found   findings
	cast    []byte // numbers before a cast; nil if there is none
	rows    []byte // rows before they are copied to a matrix; nil if there is none
}

// newWriter returns the writer of a column. packed says whether its rows are part of the rows of a matrix.
func newWriter(c *column, v *view, packed bool) *writer {
	w := &writer{column: c, nulls: v.elementNulls, fill: c.Fill}
	if c.result != c.DType {
		w.cast = as[byte](make([]uint64, chunkNumbers)) // aligned for all types
	}
	if packed {
		w.rows = as[byte](make([]uint64, chunkNumbers))
	}
	if c.Form != Values {
		w.fill = c.ElementFill
	}
	if d, ok := v.elements.(*array.Dictionary); ok {
		w.numbers = c.gathered(d, v.elementNulls, &w.found)
	} else {
		w.numbers = c.numbersOf(v.elements, v.elementNulls, &w.found)
	}
	return w
}

// write writes len(dst)/size elements from a position on.
func (w *writer) write(dst []byte, from int) {
	result, to := w.column.result, w.column.DType
	if result == to {
		w.numbers.read(dst, from)
		fillNulls(dst, w.nulls, from, w.fill)
		return
	}
	var zero [8]byte
	count := len(dst) / to.Size()
	for at := 0; at < count; {
		n := min(count-at, chunkNumbers)
		part, out := w.cast[:n*result.Size()], dst[at*to.Size():][:n*to.Size()]
		w.numbers.read(part, from+at)
		fillNulls(part, w.nulls, from+at, zero[:result.Size()]) // a value under a null fits
		if !cast(out, to, part, result) {
			w.found.unfit = true
		}
		fillNulls(out, w.nulls, from+at, w.fill)
		at += n
	}
}

// writeRows writes rows of fixed-size lists, or of single values, from a row on.
func (w *writer) writeRows(dst []byte, from int, v *view) {
	width := w.column.width()
	if w.column.Form == Values || v.nulls.bits == nil {
		w.write(dst, from*width)
		return
	}
	bytes := width * w.column.DType.Size()
	if bytes == 0 {
		return
	}
	written, nulls := 0, v.nulls.slice(from, len(dst)/bytes)
	for start, end := range nulls.runs {
		repeat(dst[written*bytes:start*bytes], w.column.Fill)
		w.write(dst[start*bytes:end*bytes], (from+start)*width)
		written = end
	}
	repeat(dst[written*bytes:], w.column.Fill)
}

// gatheredNumbers reads the values of a dictionary array.
type gatheredNumbers struct {
	index   func(i int) uint64
	nulls   validity // of the array, with those of the dictionary's values
	size    int      // of a number in bytes
	length  int      // of the dictionary
	encoded []byte   // the number of each dictionary value; nil: values are read one by one
	values  numbers
	found   *findings
}

// gathered returns the numbers of a dictionary array. If the dictionary is not longer than the array, each
// of its values is converted once, into gatherScratch bytes, and otherwise each value of the array.
func (c *column) gathered(d *array.Dictionary, nulls validity, found *findings) numbers {
	values := storedIn(d.Dictionary())
	g := gatheredNumbers{
		index: indicesOf(d), nulls: nulls, size: c.result.Size(), length: values.Len(),
		values: c.numbersOf(values, validityOf(values), found), found: found,
	}
	if bytes := c.gatherScratch(d); bytes > 0 {
		var local findings
		encoded := as[byte](make([]uint64, bytes/8))[:g.size*g.length]
		c.numbersOf(values, validityOf(values), &local).read(encoded, 0)
		if !local.any() { // otherwise it depends on the rows whether the findings are values of the array
			g.encoded = encoded
		}
	}
	return g
}

// gatherScratch returns the bytes that the converted values of a dictionary take; 0 if there is none, or if it is longer than
// the array.
func (c *column) gatherScratch(a arrow.Array) int64 {
	d, ok := a.(*array.Dictionary)
	if !ok || d.Dictionary().Len() > d.Len() {
		return 0
	}
	return int64(d.Dictionary().Len()*c.result.Size()+7) / 8 * 8
}

func (g gatheredNumbers) read(dst []byte, from int) {
	for i := range len(dst) / g.size {
		out := dst[i*g.size:][:g.size]
		index := g.index(from + i)
		switch {
		case g.nulls.isNull(from + i):
			clear(out)
		case index >= uint64(g.length):
			g.found.outside = true
			clear(out)
		case g.encoded != nil:
			copyElements(out, g.encoded[int(index)*g.size:][:g.size])
		default:
			g.values.read(out, int(index))
		}
	}
}
