package convert

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/charged"
)

// microsPerMilli converts times of day.
const microsPerMilli = 1000

// millisToMicros converts all values, including those under nulls.
func millisToMicros(out []int64, millis []int32) {
	for i := range out {
		out[i] = int64(millis[i]) * microsPerMilli
	}
}

// checkDigits returns an error if a decimal has more digits than the table's type.
func (conv *Conversion) checkDigits(stored *memory.Buffer, validity []byte, offset, n int) error {
	want := conv.Want.(*arrow.Decimal128Type)
	if stored == nil { // no list has an element
		return nil
	}
	values := arrow.Decimal128Traits.CastFromBytes(stored.Bytes())
	for i := offset; i < offset+n; i++ {
		if (validity == nil || bitutil.BitIsSet(validity, i)) && !values[i].FitsInPrecision(want.Precision) {
			return fault.New(fault.Invalid, "column %s holds %s, which does not fit in %s", conv.Path, values[i].ToString(want.Scale), want).
				WithRemedy("give the table's column more digits, or rewrite the file")
		}
	}
	return nil
}

// allNulls returns the nulls of a column that is annotated to be all null. A value in the column is
// an error.
func (conv *Conversion) allNulls(n, nulls int, mem memory.Allocator) (out arrow.ArrayData, err error) {
	if nulls < n {
		return nil, fmt.Errorf("column %s is annotated to be all null, but has values", conv.Path)
	}
	defer charged.Refused(&err) // recovered here, because the caller has to release the siblings
	made := batch.Nulls(conv.Want, n, mem)
	defer made.Release()
	made.Data().Retain()
	return made.Data(), nil
}

// toBinary converts fixed-size to variable-size bytes. Values under nulls become empty.
func (conv *Conversion) toBinary(data arrow.ArrayData, validity []byte, mem memory.Allocator) (out arrow.ArrayData, err error) {
	defer charged.Refused(&err) // recovered here, because the caller has to release the siblings
	n, offset := data.Len(), data.Offset()
	width := batch.StorageOf(data.DataType()).(arrow.FixedWidthDataType).Bytes()
	if int64(n)*int64(width) > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "%d rows of column %s are too large for one batch", n, conv.Path).WithRemedy("ask for fewer rows per batch")
	}
	var stored []byte // empty if no list has an element
	if b := data.Buffers()[1]; b != nil {
		stored = b.Bytes()
	}
	if len(stored) < (offset+n)*width {
		return nil, fmt.Errorf("column %s has %d bytes, not %d values", conv.Path, len(stored), offset+n)
	}
	buffers := []*memory.Buffer{nil, memory.NewResizableBuffer(mem), memory.NewResizableBuffer(mem)}
	defer func() { batch.ReleaseAll(buffers...) }()
	nulls := 0
	if validity != nil {
		buffers[0] = memory.NewResizableBuffer(mem)
		batch.ResizeBits(buffers[0], n)
		bitutil.CopyBitmap(validity, offset, n, buffers[0].Bytes(), 0)
		nulls = n - bitutil.CountSetBits(buffers[0].Bytes(), 0, n)
	}
	buffers[1].Resize((n + 1) * arrow.Int32SizeBytes)
	buffers[2].Resize((n - nulls) * width)
	offsets, values, end := arrow.Int32Traits.CastFromBytes(buffers[1].Bytes()), buffers[2].Bytes(), 0
	offsets[0] = 0
	for i := range n {
		if validity == nil || bitutil.BitIsSet(validity, offset+i) {
			end += copy(values[end:], stored[(offset+i)*width:(offset+i+1)*width])
		}
		offsets[i+1] = int32(end) //nolint:gosec // the sum fits, see above
	}
	return array.NewData(conv.Want, n, buffers, nil, nulls, 0), nil
}
