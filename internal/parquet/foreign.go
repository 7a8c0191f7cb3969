package parquet

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/schema"

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
func (conv *conversion) checkDigits(stored *memory.Buffer, validity []byte, offset, n int) error {
	want := conv.want.(*arrow.Decimal128Type)
	if stored == nil { // no list has an element
		return nil
	}
	values := arrow.Decimal128Traits.CastFromBytes(stored.Bytes())
	for i := offset; i < offset+n; i++ {
		if (validity == nil || bitutil.BitIsSet(validity, i)) && !values[i].FitsInPrecision(want.Precision) {
			return fault.New(fault.Invalid, "column %s holds %s, which does not fit in %s", conv.path, values[i].ToString(want.Scale), want).
				WithRemedy("give the table's column more digits, or rewrite the file")
		}
	}
	return nil
}

// allNulls makes the nulls of a column that is annotated to be all null.
func (conv *conversion) allNulls(n, nulls int, mem memory.Allocator) (out arrow.ArrayData, err error) {
	if nulls < n {
		return nil, fmt.Errorf("column %s is annotated to be all null, but has values", conv.path)
	}
	defer charged.Refused(&err) // here, as siblings have to be released
	made := batch.Nulls(conv.want, n, mem)
	defer made.Release()
	made.Data().Retain()
	return made.Data(), nil
}

// toBinary converts fixed-size to variable-size bytes. Those under nulls become empty.
func (conv *conversion) toBinary(data arrow.ArrayData, validity []byte, mem memory.Allocator) (out arrow.ArrayData, err error) {
	defer charged.Refused(&err) // here, as siblings have to be released
	n, offset := data.Len(), data.Offset()
	width := batch.StorageOf(data.DataType()).(arrow.FixedWidthDataType).Bytes()
	if int64(n)*int64(width) > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "%d rows of column %s are too large for one batch", n, conv.path).WithRemedy("ask for fewer rows per batch")
	}
	var stored []byte // empty if no list has an element
	if b := data.Buffers()[1]; b != nil {
		stored = b.Bytes()
	}
	if len(stored) < (offset+n)*width {
		return nil, fmt.Errorf("column %s has %d bytes, not %d values", conv.path, len(stored), offset+n)
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
	return array.NewData(conv.want, n, buffers, nil, nulls, 0), nil
}

// isTimeNanos reports whether a leaf is annotated as times of day in nanoseconds.
func (f *Footer) isTimeNanos(leaf int) bool {
	logical, ok := f.meta.Schema.Column(leaf).LogicalType().(schema.TimeLogicalType)
	return ok && logical.TimeUnit() == schema.TimeUnitNanos
}

// statisticsProveNanos reports whether the statistics of a leaf prove that its times of
// day are in nanoseconds, as annotated: some are too large for microseconds, or all are
// null or midnight. No checksum covers a footer, so a single flipped bit can turn an
// annotation of microseconds into nanoseconds, and the times would come out a thousand
// times too small.
func (f *Footer) statisticsProveNanos(leaf int) bool {
	other := false
	for group := range f.groups {
		chunk := f.meta.RowGroups[group].Columns[leaf].MetaData
		s := chunk.Statistics
		if chunk.NumValues == 0 {
			continue
		}
		if s == nil || !f.trusted(group, leaf) {
			return false
		}
		lower, upper := s.MinValue, s.MaxValue
		if len(lower) == 0 && len(upper) == 0 && s.NullCount != nil && *s.NullCount == chunk.NumValues {
			continue // all null
		}
		if len(lower) != arrow.Int64SizeBytes || len(upper) != arrow.Int64SizeBytes {
			return false
		}
		if binary.LittleEndian.Uint64(upper) >= microsPerDay {
			return true
		}
		other = other || binary.LittleEndian.Uint64(lower) > 0 || binary.LittleEndian.Uint64(upper) > 0
	}
	return !other
}
