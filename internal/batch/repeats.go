package batch

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"
)

// Repeats clears, in same, each row of an array that is not what the row before is, in
// the sense of SameRow; the first row, too. Rows that are clear already stay so, and are
// not looked at. Of columns without nulls it compares values where they lie, many times
// as fast as SameRow by itself.
func Repeats(a arrow.Array, same []bool) {
	if len(same) == 0 {
		return
	}
	same[0] = false
	d := a.Data()
	if validBits(d, d.Offset(), a.Len()) != nil || !repeatsOf(d, same) {
		for i := 1; i < len(same); i++ {
			same[i] = same[i] && SameRow(a, i-1, a, i)
		}
	}
}

// KeyRepeats says, in same, of each row whether it has the key of the row before: the same
// value in each column, in the sense of SameRow, and no null. The first row has not.
func KeyRepeats(key []arrow.Array, same []bool) {
	for i := range same {
		same[i] = true
	}
	for _, column := range key {
		Repeats(column, same)
		for i := range same {
			same[i] = same[i] && column.IsValid(i)
		}
	}
}

// repeatsOf is Repeats of values without nulls, of the types that have a loop.
func repeatsOf(d arrow.ArrayData, same []bool) bool {
	switch dt := d.DataType().(type) {
	case *arrow.StringType, *arrow.BinaryType:
		repeatedItems(d, view[int32](d.Buffers()[1].Bytes()), bytesOf(d.Buffers()[2]), 1, same)
		return true
	case *arrow.ListType:
		items := d.Children()[0]
		width, ok := plainWidth(dt.Elem())
		if !ok || validBits(items, items.Offset(), items.Len()) != nil {
			return false
		}
		repeatedItems(d, view[int32](d.Buffers()[1].Bytes()), bytesOf(items.Buffers()[1])[items.Offset()*int(width):], int(width), same)
		return true
	default:
		width, ok := plainWidth(dt)
		if !ok {
			return false
		}
		values := d.Buffers()[1].Bytes()[d.Offset()*int(width):]
		switch width {
		case 4:
			repeatedValues(view[uint32](values), same)
		case 8:
			repeatedValues(view[uint64](values), same)
		default:
			repeatedBytes(values, int(width), same)
		}
		return true
	}
}

// repeatedItems compares what lies between offsets, in items of a width.
func repeatedItems(d arrow.ArrayData, all []int32, items []byte, width int, same []bool) {
	offsets := all[d.Offset():]
	for i := 1; i < len(same); i++ {
		if !same[i] {
			continue
		}
		before, from, to := int(offsets[i-1]), int(offsets[i]), int(offsets[i+1])
		same[i] = from-before == to-from && bytes.Equal(items[before*width:from*width], items[from*width:to*width])
	}
}

func repeatedValues[T uint32 | uint64](values []T, same []bool) {
	before := values[0]
	for i, v := range values[:len(same)] {
		if v != before {
			same[i] = false
		}
		before = v
	}
}

func repeatedBytes(values []byte, width int, same []bool) {
	for i := 1; i < len(same); i++ {
		same[i] = same[i] && bytes.Equal(values[(i-1)*width:i*width], values[i*width:(i+1)*width])
	}
}
