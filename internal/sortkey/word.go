package sortkey

import (
	"cmp"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// nulls has the nulls of a column, and the column's order.
type nulls struct {
	ColumnOrder
	validity []byte // nil: no row is null
	offset   int    // offset of row 0 in validity
}

func nullsOf(a arrow.Array, order ColumnOrder) nulls {
	n := nulls{ColumnOrder: order, offset: a.Data().Offset()}
	if a.NullN() > 0 {
		n.validity = a.NullBitmapBytes()
	}
	return n
}

func (n *nulls) isNull(row int) bool {
	return n.validity != nil && !bitutil.BitIsSet(n.validity, n.offset+row)
}

// chunkOfNull returns the chunk of null, which no value has as its first chunk.
func (n *nulls) chunkOfNull() uint64 {
	if n.NullsFirst {
		return 0
	}
	return math.MaxUint64
}

// compareNulls compares two rows if at least one of them is null. It returns false if neither is
// null.
func (n *nulls) compareNulls(row int, with *nulls, other int) (order int, ok bool) {
	one, two := n.isNull(row), with.isNull(other)
	switch {
	case !one && !two:
		return 0, false
	case one && two:
		return 0, true
	case one == n.NullsFirst:
		return -1, true
	default:
		return 1, true
	}
}

// wordColumn has values of at most 64 bits.
type wordColumn struct {
	nulls
	narrow bool     // whether values have at most 32 bits
	words  []uint64 // the values as numbers in the column's order; arbitrary for nulls
}

func (c *wordColumn) chunk(level, row int) uint64 {
	switch {
	case level > 0:
		return c.words[row]
	case c.isNull(row):
		return c.chunkOfNull()
	}
	return c.spaced(c.words[row])
}

// spaced returns the first chunk of a value, which differs from the chunk of null. To make room for
// null, the two 64-bit values that are next to null in the order share their first chunk.
func (c *wordColumn) spaced(word uint64) uint64 {
	switch {
	case c.narrow:
		return word + 1
	case c.NullsFirst:
		return max(word, 1)
	default:
		return min(word, math.MaxUint64-1)
	}
}

func (c *wordColumn) more(level int, chunk uint64) bool {
	if level > 0 || c.narrow {
		return false
	}
	if c.NullsFirst {
		return chunk == 1
	}
	return chunk == math.MaxUint64-1
}

func (c *wordColumn) compare(row int, with keyColumn, other int) int {
	w := with.(*wordColumn)
	if order, ok := c.compareNulls(row, &w.nulls, other); ok {
		return order
	}
	return cmp.Compare(c.words[row], w.words[other])
}

func (c *wordColumn) firstChunks(dst []uint64) {
	for row := range dst {
		dst[row] = c.spaced(c.words[row])
	}
	if c.validity == nil {
		return
	}
	for row := range dst {
		if c.isNull(row) {
			dst[row] = c.chunkOfNull()
		}
	}
}

func isNarrow(dt arrow.DataType) bool {
	switch dt.ID() {
	case arrow.BOOL, arrow.INT32, arrow.DATE32, arrow.FLOAT32:
		return true
	default:
		return false
	}
}

// The sign bits of 32-bit and 64-bit numbers.
const (
	sign32 = 1 << 31
	sign64 = 1 << 63
)

// wordsOf returns the values of a column as numbers that have the column's order.
func wordsOf(a arrow.Array, descending bool) []uint64 {
	out := make([]uint64, a.Len())
	highest := uint64(math.MaxUint64)
	switch a := a.(type) {
	case *array.Boolean:
		highest = 1
		for row := range out {
			if a.Value(row) {
				out[row] = 1
			}
		}
	case *array.Int32:
		highest = narrowWords(out, a.Int32Values())
	case *array.Date32:
		highest = narrowWords(out, a.Date32Values())
	case *array.Float32:
		highest = math.MaxUint32
		for row, v := range a.Float32Values() {
			out[row] = uint64(orderedFloat32(v))
		}
	case *array.Int64:
		wideWords(out, a.Int64Values())
	case *array.Time64:
		wideWords(out, a.Time64Values())
	case *array.Timestamp:
		wideWords(out, a.TimestampValues())
	case *array.Float64:
		for row, v := range a.Float64Values() {
			out[row] = orderedFloat64(v)
		}
	}
	if descending {
		for row, v := range out {
			out[row] = highest - v
		}
	}
	return out
}

func narrowWords[T ~int32](out []uint64, values []T) (highest uint64) {
	for row, v := range values { // an array of nulls may have no values
		out[row] = uint64(uint32(v) ^ sign32)
	}
	return math.MaxUint32
}

func wideWords[T ~int64](out []uint64, values []T) {
	for row, v := range values { // an array of nulls may have no values
		out[row] = uint64(v) ^ sign64
	}
}

// orderedFloat32 maps a float to a number, so that the numbers have the order of the floats.
func orderedFloat32(v float32) uint32 {
	bits := math.Float32bits(v)
	if math.IsNaN(float64(v)) {
		bits = bits&sign32 | math.Float32bits(float32(math.NaN()))&^sign32
	}
	if bits&sign32 != 0 {
		return ^bits
	}
	return bits | sign32
}

// orderedFloat64 maps a float to a number, so that the numbers have the order of the floats.
func orderedFloat64(v float64) uint64 {
	bits := math.Float64bits(v)
	if math.IsNaN(v) {
		bits = bits&sign64 | math.Float64bits(math.NaN())&^sign64
	}
	if bits&sign64 != 0 {
		return ^bits
	}
	return bits | sign64
}
