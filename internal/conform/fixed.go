package conform

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// fixedBytes bounds the bytes that variable allocates for items: those of rows with nulls are copied.
func fixedBytes(a *array.FixedSizeList) int64 {
	if a.NullN() == 0 {
		return 0
	}
	from, to := fixedRange(a)
	width := a.ListValues().DataType().(arrow.FixedWidthDataType).Bytes()
	return (to-from)*int64(width) + bitutil.BytesForBits(to-from) + slack
}

// fixedRange returns the range of the items of an array, which may be sliced.
func fixedRange(a *array.FixedSizeList) (from, to int64) {
	from, _ = a.ValueOffsets(0)
	_, to = a.ValueOffsets(a.Len() - 1)
	return from, to
}

// variable converts lists of a fixed size to lists. The items are shared if no row is null; otherwise those of
// null rows, which such an array has too, are left out.
func variable(a *array.FixedSizeList, to arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	from, end := fixedRange(a)
	if end-from > math.MaxInt32 {
		return nil, tooLong(end - from)
	}
	ends := newBuffer(arrow.Int32Traits.BytesRequired(a.Len()+1), mem)
	offsets := arrow.Int32Traits.CastFromBytes(ends.Bytes())
	offsets[0] = 0
	size := a.DataType().(*arrow.FixedSizeListType).Len()
	for row := range a.Len() {
		offsets[row+1] = offsets[row]
		if a.IsValid(row) {
			offsets[row+1] += size
		}
	}
	items, err := validItems(a, mem)
	if err != nil {
		ends.Release()
		return nil, err
	}
	defer items.Release()
	return made(to, a, []*memory.Buffer{ends}, []arrow.ArrayData{items.Data()}, mem), nil
}

// validItems returns the items of rows that are not null.
func validItems(a *array.FixedSizeList, mem memory.Allocator) (arrow.Array, error) {
	from, end := fixedRange(a)
	if a.NullN() == 0 {
		return array.NewSlice(a.ListValues(), from, end), nil
	}
	var runs []arrow.Array
	defer func() {
		for _, run := range runs {
			run.Release()
		}
	}()
	for row := 0; row < a.Len(); {
		if a.IsNull(row) {
			row++
			continue
		}
		first, _ := a.ValueOffsets(row)
		for row < a.Len() && a.IsValid(row) {
			row++
		}
		_, last := a.ValueOffsets(row - 1)
		runs = append(runs, array.NewSlice(a.ListValues(), first, last))
	}
	if len(runs) == 0 {
		return batch.Nulls(a.ListValues().DataType(), 0, batch.Default()), nil
	}
	out, err := array.Concatenate(runs, mem)
	if err != nil {
		return nil, fault.New(fault.Internal, "join the items of lists: %w", err)
	}
	return out, nil
}
