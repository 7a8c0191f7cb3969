package batch

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"
)

// Repeats clears same[i] for each row i that differs from the row before it, in the
// sense of SameRow, and for the first row. Rows that are clear already are not
// compared. For columns without nulls it compares buffers directly, which is many times
// as fast as SameRow.
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

// KeyRepeats sets same[i] to whether row i has the same key as the row before it: the same value in
// each column, in the sense of SameRow, and no null. It sets same[0] to false.
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

// repeatsOf is Repeats for values without nulls. It returns false for types that it does
// not support.
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

// repeatedItems compares the items between offsets, given their width.
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
