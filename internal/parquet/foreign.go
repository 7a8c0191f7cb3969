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

	"github.com/penstock/penstock/internal/fault"
)

// microsPerMilli converts times of day.
const microsPerMilli = 1000

// microsOfDay makes microseconds of milliseconds, also of those under nulls.
func microsOfDay(out []int64, millis []int32) {
	for i := range out {
		out[i] = int64(millis[i]) * microsPerMilli
	}
}

// fewerDigits sees that no decimal has more digits than the table's type.
func (s *shape) fewerDigits(stored *memory.Buffer, validity []byte, offset, n int) error {
	want := s.want.(*arrow.Decimal128Type)
	if stored == nil { // no list has an element
		return nil
	}
	values := arrow.Decimal128Traits.CastFromBytes(stored.Bytes())
	for i := offset; i < offset+n; i++ {
		if (validity == nil || bitutil.BitIsSet(validity, i)) && !values[i].FitsInPrecision(want.Precision) {
			return fault.New(fault.Invalid, "column %s holds %s, which %s cannot say", s.path, values[i].ToString(want.Scale), want).
				WithRemedy("give the table's column more digits, or rewrite the file")
		}
	}
	return nil
}

// withoutValues makes the nulls of a column that is annotated to hold nothing else.
func (s *shape) withoutValues(n, nulls int, mem memory.Allocator) (out arrow.ArrayData, err error) {
	if nulls < n {
		return nil, fmt.Errorf("column %s is annotated to hold nulls alone, and has values", s.path)
	}
	defer refused(&err) // here, as others of a nested column are to be released
	made := array.MakeArrayOfNull(cleared{mem}, s.want, n)
	defer made.Release()
	made.Data().Retain()
	return made.Data(), nil
}

// anyWidth makes bytes of any width of those of one. Nothing is left of values under nulls.
func (s *shape) anyWidth(data arrow.ArrayData, validity []byte, mem memory.Allocator) (out arrow.ArrayData, err error) {
	defer refused(&err) // here, as others of a nested column are to be released
	n, offset := data.Len(), data.Offset()
	width := storageOf(data.DataType()).(arrow.FixedWidthDataType).Bytes()
	if int64(n)*int64(width) > math.MaxInt32 {
		return nil, fault.New(fault.Exhausted, "%d rows of column %s are too large for one batch", n, s.path).WithRemedy("ask for fewer rows per batch")
	}
	var stored []byte // nothing, where no list has an element
	if b := data.Buffers()[1]; b != nil {
		stored = b.Bytes()
	}
	if len(stored) < (offset+n)*width {
		return nil, fmt.Errorf("column %s has %d bytes, not %d values", s.path, len(stored), offset+n)
	}
	buffers := []*memory.Buffer{nil, memory.NewResizableBuffer(mem), memory.NewResizableBuffer(mem)}
	defer func() {
		for _, b := range buffers {
			if b != nil {
				b.Release()
			}
		}
	}()
	nulls := 0
	if validity != nil {
		buffers[0] = memory.NewResizableBuffer(mem)
		buffers[0].Resize(int(bitutil.BytesForBits(int64(n))))
		clear(buffers[0].Bytes())
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
		offsets[i+1] = int32(end) //nolint:gosec // all of them fit, see above
	}
	return array.NewData(s.want, n, buffers, nil, nulls, 0), nil
}

// microsOfOneDay is how many microseconds a day has: a time of day is less.
const microsOfOneDay = secondsPerDay * 1_000_000

// ofNanos says whether a leaf is annotated as times of day in nanoseconds.
func (f *Footer) ofNanos(leaf int) bool {
	logical, ok := f.meta.Schema.Column(leaf).LogicalType().(schema.TimeLogicalType)
	return ok && logical.TimeUnit() == schema.TimeUnitNanos
}

// provesNanos says whether the statistics of a leaf show that its times of day are in
// nanoseconds, as its annotation says: some are too great for microseconds, or all are null
// or midnight. No checksum covers a footer, and one other bit in it makes nanoseconds of
// microseconds: the times would be a thousandth of what they are.
func (f *Footer) provesNanos(leaf int) bool {
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
		least, greatest := s.MinValue, s.MaxValue
		if len(least) == 0 && len(greatest) == 0 && s.NullCount != nil && *s.NullCount == chunk.NumValues {
			continue // nulls alone
		}
		if len(least) != arrow.Int64SizeBytes || len(greatest) != arrow.Int64SizeBytes {
			return false
		}
		if binary.LittleEndian.Uint64(greatest) >= microsOfOneDay {
			return true
		}
		other = other || binary.LittleEndian.Uint64(least) > 0 || binary.LittleEndian.Uint64(greatest) > 0
	}
	return !other
}
