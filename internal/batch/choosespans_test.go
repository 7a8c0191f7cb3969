package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// lists returns lists of numbers whose items are a slice of an array. Every ninth list is null, and has items under
// it; with nulls, so is every fifth item.
func lists(t *testing.T, rows, before int, nulls bool) arrow.Array {
	t.Helper()
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	offsets := []int32{0}
	valid := make([]byte, rows/8+1)
	for i := range before {
		b.Append(int32(-i))
	}
	for row := range rows {
		for i := range row % 4 {
			if nulls && (row+i)%5 == 0 {
				b.AppendNull()
			} else {
				b.Append(int32(100*row + i))
			}
		}
		offsets = append(offsets, offsets[row]+int32(row%4))
		if row%9 != 0 {
			valid[row/8] |= 1 << (row % 8)
		}
	}
	whole := b.NewArray()
	defer whole.Release()
	items := whole
	if before > 0 { // a slice does not know how many nulls it has
		items = array.NewSlice(whole, int64(before), int64(whole.Len()))
		defer items.Release()
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(valid), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	made := array.NewData(arrow.ListOf(arrow.PrimitiveTypes.Int32), rows, buffers, []arrow.ArrayData{items.Data()}, array.UnknownNullCount, 0)
	defer made.Release()
	return array.MakeFromData(made)
}

// TestChooseLists chooses lists in runs of one row: sliced lists, of sliced items, with and without nulls.
func TestChooseLists(t *testing.T) {
	for _, nulls := range []bool{false, true} {
		for _, before := range []int{0, 3} {
			const rows = 40
			one, two := lists(t, rows, before, nulls), lists(t, rows, 2*before, nulls)
			sources := []arrow.Array{array.NewSlice(one, int64(before), rows), array.NewSlice(two, 0, rows-2)}
			var which, at []int32
			var want []any
			for i := range int32(30) {
				which, at = append(which, i%2), append(at, i*7%30)
				want = append(want, valueAt(sources[i%2], int(i*7%30)))
			}
			mem := batch.NewAllocator() // sizes of other allocators are not exact
			choice, err := batch.NewChoice(len(sources), which, at, mem)
			require.NoError(t, err)
			size, err := choice.Size(one.DataType(), sources)
			require.NoError(t, err)
			got, err := choice.Column(one.DataType(), sources)
			require.NoError(t, err)
			require.Equal(t, want, valuesOf(got))
			require.GreaterOrEqual(t, size, batch.ArraySize(got))
			requireTidy(t, got.Data())
			for _, a := range []arrow.Array{got, sources[0], sources[1], one, two} {
				a.Release()
			}
		}
	}
}
