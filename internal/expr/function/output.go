package function

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// output owns the buffers of a result until it is complete. The caller of newOutput closes it.
type output struct {
	mem   memory.Allocator
	rows  int
	owned []*memory.Buffer
}

func newOutput(rows int, mem memory.Allocator) *output { return &output{mem: mem, rows: rows} }

// close releases the buffers. Arrays made of them keep them.
func (o *output) close() {
	for _, b := range o.owned {
		b.Release()
	}
}

// buffer makes a buffer of n bytes, whose contents are undefined.
func (o *output) buffer(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(o.mem)
	o.owned = append(o.owned, b)
	b.Resize(n)
	return b
}

// zeroed makes a buffer of n zero bytes.
func (o *output) zeroed(n int) *memory.Buffer {
	b := o.buffer(n)
	clear(b.Bytes())
	return b
}

// array makes the result of the output's rows. Without a null, it has no bits.
func (o *output) array(dt arrow.DataType, v validity, buffers ...*memory.Buffer) arrow.Array {
	nulls := 0
	if v.buffer != nil {
		nulls = o.rows - bitutil.CountSetBits(v.buffer.Bytes(), 0, o.rows)
	}
	if nulls == 0 {
		v.buffer = nil
	}
	data := array.NewData(dt, o.rows, append([]*memory.Buffer{v.buffer}, buffers...), nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// validity has a bit for each row of a result. Without a buffer, all rows are valid.
type validity struct{ buffer *memory.Buffer }

func (v validity) valid(row int) bool {
	return v.buffer == nil || bitutil.BitIsSet(v.buffer.Bytes(), row)
}

func (v validity) clear(row int) { bitutil.ClearBit(v.buffer.Bytes(), row) }

// allValid makes bits that are all set.
func (o *output) allValid() validity {
	b := o.buffer(bitmapBytes(o.rows))
	for i := range b.Bytes() {
		b.Bytes()[i] = 0xff
	}
	return validity{b}
}

// common makes the validity of a result that is null if any argument is null.
func (o *output) common(args []arrow.Array) validity {
	out := validity{}
	for _, a := range args {
		if a.NullN() == 0 || o.rows == 0 {
			continue
		}
		if maskOf(a, o.rows) == 0 { // a null literal
			return validity{o.zeroed(bitmapBytes(o.rows))}
		}
		bitmap, offset := a.NullBitmapBytes(), a.Data().Offset()
		if out.buffer == nil {
			out.buffer = o.zeroed(bitmapBytes(o.rows))
			bitutil.CopyBitmap(bitmap, offset, o.rows, out.buffer.Bytes(), 0)
			continue
		}
		bitutil.BitmapAnd(out.buffer.Bytes(), bitmap, 0, int64(offset), out.buffer.Bytes(), 0, int64(o.rows))
	}
	return out
}

// bufferAlignment is the number of bytes to which Arrow rounds the sizes of buffers up.
const bufferAlignment = 64

// padded returns the bytes that a buffer of n bytes allocates.
func padded(n int64) int64 { return (n + bufferAlignment - 1) / bufferAlignment * bufferAlignment }

func bitmapBytes(rows int) int { return int(bitutil.BytesForBits(int64(rows))) }

// fixedSize returns the bytes of a result with values of a width in bytes.
func fixedSize(rows, width int) int64 {
	return padded(int64(rows)*int64(width)) + padded(int64(bitmapBytes(rows)))
}

// bitSize returns the bytes of a result of booleans.
func bitSize(rows int) int64 { return 2 * padded(int64(bitmapBytes(rows))) }

// values returns the bytes of a buffer as values of a type.
func values[T arrow.FixedWidthType](b *memory.Buffer) []T { return arrow.GetData[T](b.Bytes()) }
