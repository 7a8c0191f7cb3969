package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// cleared zeroes what an allocator hands out. The decoder leaves the offsets
// of empty nested lists and the values under nulls unwritten: with memory of
// any content the one breaks it and the other would show rows of another
// stream to a client.
type cleared struct{ under memory.Allocator }

func (c cleared) Allocate(size int) []byte {
	b := c.under.Allocate(size)
	clear(b)
	return b
}

func (c cleared) Reallocate(size int, b []byte) []byte {
	had := len(b)
	out := c.under.Reallocate(size, b)
	if size > had {
		clear(out[had:])
	}
	return out
}

func (c cleared) Free(b []byte) { c.under.Free(b) }

// overwritten knows the types whose values the decoder writes all, save for
// those under nulls: zeroing those after it is cheaper than all before.
func overwritten(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP:
		return true
	default:
		return false
	}
}

// zeroNulls clears the n values of a width in bytes that are null.
func zeroNulls(values, validity []byte, width, n int) {
	for i := range n {
		if !bitutil.BitIsSet(validity, i) {
			clear(values[i*width : (i+1)*width])
		}
	}
}
