package batch_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/stretchr/testify/require"
)

// valueAt reads one row with arrow-go's accessors: the slow oracle.
func valueAt(a arrow.Array, i int) any {
	if a.IsNull(i) || a.DataType().ID() == arrow.NULL {
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		row := make([]any, a.NumField())
		for k := range row {
			row[k] = valueAt(a.Field(k), i)
		}
		return row
	case *array.Map:
		return rangeOf(a.ListValues(), a, i)
	case *array.List:
		return rangeOf(a.ListValues(), a, i)
	case *array.LargeList:
		return rangeOf(a.ListValues(), a, i)
	case *array.FixedSizeList:
		return rangeOf(a.ListValues(), a, i)
	case *array.Dictionary:
		return valueAt(a.Dictionary(), a.GetValueIndex(i))
	default:
		return a.ValueStr(i)
	}
}

func rangeOf(items arrow.Array, list interface{ ValueOffsets(int) (int64, int64) }, i int) any {
	from, to := list.ValueOffsets(i)
	row := []any{}
	for k := from; k < to; k++ {
		row = append(row, valueAt(items, int(k)))
	}
	return row
}

func valuesOf(a arrow.Array) []any {
	out := make([]any, a.Len())
	for i := range out {
		out[i] = valueAt(a, i)
	}
	return out
}

// requireTidy checks a gathered column at every level: no offset, no validity buffer
// without nulls, the right null count, zeros under nulls.
func requireTidy(t *testing.T, data arrow.ArrayData) {
	t.Helper()
	require.Zero(t, data.Offset())
	if data.DataType().ID() == arrow.NULL {
		return
	}
	validity := data.Buffers()[0]
	if validity == nil {
		require.Zero(t, data.NullN())
	} else {
		require.Positive(t, data.NullN())
		require.Equal(t, data.NullN(), data.Len()-bitutil.CountSetBits(validity.Bytes(), 0, data.Len()))
		if width, fixed := data.DataType().(arrow.FixedWidthDataType); fixed && width.BitWidth() >= 8 && len(data.Children()) == 0 {
			n, values := width.Bytes(), data.Buffers()[1].Bytes()
			for i := range data.Len() {
				if bitutil.BitIsNotSet(validity.Bytes(), i) {
					require.Equal(t, make([]byte, n), values[i*n:(i+1)*n], fmt.Sprint("under the null of row ", i))
				}
			}
		}
	}
	if validity != nil && data.DataType().ID() == arrow.BOOL {
		for i, valid := range validity.Bytes() {
			require.Zero(t, data.Buffers()[1].Bytes()[i]&^valid, "booleans under nulls")
		}
	}
	for _, child := range data.Children() {
		requireTidy(t, child)
	}
}
