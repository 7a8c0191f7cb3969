package sortkey

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// byteColumn has values that are ordered by their bytes.
type byteColumn struct {
	nulls
	offsets []int32 // offsets of the values in bytes; nil: all values have the same width
	width   int
	bytes   []byte
}

// chunkBytes is the maximum number of bytes of a value in a chunk. The lowest byte of a chunk is
// the number of bytes of the value in the chunk, plus one. If another chunk of the value follows,
// the lowest byte is moreBytes instead.
const (
	chunkBytes = 7
	moreBytes  = chunkBytes + 2
)

func (c *byteColumn) value(row int) []byte {
	if c.offsets == nil {
		return c.bytes[row*c.width : (row+1)*c.width]
	}
	first := c.offsets[0]
	return c.bytes[c.offsets[row]-first : c.offsets[row+1]-first]
}

func (c *byteColumn) chunk(level, row int) uint64 {
	if c.isNull(row) {
		return c.chunkOfNull()
	}
	chunk := chunkOf(c.value(row)[level*chunkBytes:])
	if c.Descending {
		return ^chunk
	}
	return chunk
}

// chunkOf returns the first chunk of bytes.
func chunkOf(v []byte) uint64 {
	if len(v) > chunkBytes {
		return binary.BigEndian.Uint64(v)&^0xff | moreBytes
	}
	chunk := uint64(len(v) + 1)
	for i, b := range v {
		chunk |= uint64(b) << (56 - 8*i)
	}
	return chunk
}

func (c *byteColumn) more(_ int, chunk uint64) bool {
	if c.Descending {
		chunk = ^chunk
	}
	return byte(chunk) == moreBytes
}

func (c *byteColumn) compare(row int, with keyColumn, other int) int {
	w := with.(*byteColumn)
	if order, ok := c.compareNulls(row, &w.nulls, other); ok {
		return order
	}
	if c.Descending {
		return bytes.Compare(w.value(other), c.value(row))
	}
	return bytes.Compare(c.value(row), w.value(other))
}

func (c *byteColumn) firstChunks(dst []uint64) {
	for row := range dst {
		dst[row] = c.chunk(0, row)
	}
}

// variableBytes returns the bytes of texts or binary values, starting with the first byte of the
// first row.
func variableBytes(a interface {
	Len() int
	ValueBytes() []byte
},
) []byte {
	if a.Len() == 0 {
		return nil // an empty array may have no buffers
	}
	return a.ValueBytes()
}

// fixedBytes returns the bytes of values of a fixed width.
func fixedBytes(a arrow.Array, width int) []byte {
	buffer := a.Data().Buffers()[1]
	if a.Len() == 0 || buffer == nil {
		return make([]byte, a.Len()*width) // all rows are null
	}
	return buffer.Bytes()[a.Data().Offset()*width:]
}

// decimalBytes returns decimals of one scale as bytes in the same order.
func decimalBytes(values []decimal128.Num) []byte {
	out := make([]byte, 0, len(values)*arrow.Decimal128SizeBytes)
	for _, v := range values {
		out = binary.BigEndian.AppendUint64(out, uint64(v.HighBits())^sign64)
		out = binary.BigEndian.AppendUint64(out, v.LowBits())
	}
	return out
}
