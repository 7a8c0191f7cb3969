package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// unwrap takes the column out of structs of one field each, so many levels
// deep. It is null where any of them is; its values keep their buffers. The
// caller releases the result.
func unwrap(data arrow.ArrayData, depth int, mem memory.Allocator) arrow.ArrayData {
	if depth == 0 {
		data.Retain()
		return data
	}
	n, offset := data.Len(), data.Offset()
	leaf := data
	var around []arrow.ArrayData // the structs with nulls
	var starts []int             // where the rows begin in each
	for range depth {
		if nullCount(leaf) > 0 {
			around, starts = append(around, leaf), append(starts, offset)
		}
		leaf = leaf.Children()[0]
		offset += leaf.Offset()
	}
	buffers, nulls := leaf.Buffers(), array.UnknownNullCount
	if len(around) > 0 {
		combined := memory.NewResizableBuffer(mem)
		defer combined.Release()
		combined.Resize(int(bitutil.BytesForBits(int64(offset + n))))
		bits := combined.Bytes()
		clear(bits)
		bitutil.SetBitsTo(bits, int64(offset), int64(n), true)
		if own := buffers[0]; own != nil && own.Len() > 0 {
			and(bits, offset, own.Bytes(), offset, n)
		}
		for i, s := range around {
			and(bits, offset, s.Buffers()[0].Bytes(), starts[i], n)
		}
		buffers = append([]*memory.Buffer{combined}, buffers[1:]...)
	} else if len(buffers) > 0 && buffers[0] == nil {
		nulls = 0
	}
	return array.NewData(leaf.DataType(), n, buffers, leaf.Children(), nulls, offset)
}

// and keeps of n bits those that are set in both.
func and(bits []byte, at int, other []byte, from, n int) {
	for i := range n {
		if !bitutil.BitIsSet(other, from+i) {
			bitutil.ClearBit(bits, at+i)
		}
	}
}
