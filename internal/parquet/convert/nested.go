package convert

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// Unwrap returns the column inside depth levels of structs with one field each. The result is null
// where any of the structs is null, and shares the values of the column. The caller releases the
// result.
func Unwrap(data arrow.ArrayData, depth int, mem memory.Allocator) arrow.ArrayData {
	if depth == 0 {
		data.Retain()
		return data
	}
	n := data.Len()
	leaf, offset, combined := descend(data, depth, mem)
	buffers, nulls := leaf.Buffers(), array.UnknownNullCount
	if combined != nil {
		defer combined.Release()
		if own := buffers[0]; own != nil && own.Len() > 0 {
			andBits(combined.Bytes(), offset, own.Bytes(), offset, n)
		}
		buffers = append([]*memory.Buffer{combined}, buffers[1:]...)
	} else if len(buffers) > 0 && buffers[0] == nil {
		nulls = 0
	}
	return array.NewData(leaf.DataType(), n, buffers, leaf.Children(), nulls, offset)
}

// descend follows depth levels of structs with one field each. It returns the data found there and
// the offset of the first row in that data. valid has one bit for each row, starting at bit offset;
// the bit is set if no struct is null in that row. valid is nil if no struct has nulls; otherwise
// the caller releases it.
func descend(data arrow.ArrayData, depth int, mem memory.Allocator) (leaf arrow.ArrayData, offset int, valid *memory.Buffer) {
	n := data.Len()
	leaf, offset = data, data.Offset()
	var around []arrow.ArrayData // the structs that have nulls
	var starts []int             // the offset of the first row in each
	for range depth {
		if nullCount(leaf) > 0 {
			around, starts = append(around, leaf), append(starts, offset)
		}
		leaf = leaf.Children()[0]
		offset += leaf.Offset()
	}
	if len(around) == 0 {
		return leaf, offset, nil
	}
	valid = memory.NewResizableBuffer(mem)
	batch.ResizeBits(valid, offset+n)
	bits := valid.Bytes()
	bitutil.SetBitsTo(bits, int64(offset), int64(n), true)
	for i, s := range around {
		andBits(bits, offset, s.Buffers()[0].Bytes(), starts[i], n)
	}
	return leaf, offset, valid
}

// FillAbsent returns the column that the file lacks, given the column that was read in
// its place. The caller releases the result.
func FillAbsent(absent Constant, read arrow.ArrayData, depth int, mem memory.Allocator) (arrow.ArrayData, error) {
	_, offset, valid := descend(read, depth, mem)
	var bits []byte
	if valid != nil {
		defer valid.Release()
		bits = valid.Bytes()
	}
	values, err := absent(read.Len(), bits, offset, mem)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	values.Data().Retain()
	return values.Data(), nil
}

// andBits clears each of n bits whose counterpart in other is not set.
func andBits(bits []byte, at int, other []byte, from, n int) {
	for i := range n {
		if !bitutil.BitIsSet(other, from+i) {
			bitutil.ClearBit(bits, at+i)
		}
	}
}
