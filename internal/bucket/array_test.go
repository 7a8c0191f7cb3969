package bucket_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/fault"
)

// column is a type, with a function that appends a value made of a number and
// some bytes, and returns the same value as iceberg-go takes it.
type column struct {
	arrow    arrow.DataType
	iceberg  iceberg.Type
	appendTo func(b array.Builder, n int64, raw []byte) any
}

func ofNumber[T any, B interface{ Append(v T) }](convert func(int64) T, box func(int64) any) func(array.Builder, int64, []byte) any {
	return func(b array.Builder, n int64, _ []byte) any {
		any(b).(B).Append(convert(n))
		return box(n)
	}
}

func ofBytes(b array.Builder, _ int64, raw []byte) any {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(string(raw))
		return string(raw)
	case *array.LargeStringBuilder:
		b.Append(string(raw))
		return string(raw)
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth)
		copy(v, raw)
		b.Append(v)
		return v
	default:
		b.(interface{ Append(v []byte) }).Append(raw)
		return raw
	}
}

func ofUUID(b array.Builder, n int64, raw []byte) any {
	v := ofBytes(b, n, raw)
	return uuid.UUID(v.([]byte))
}

func columns() []column {
	timestamp := func(n int64) arrow.Timestamp { return arrow.Timestamp(n) }
	boxTimestamp := func(n int64) any { return iceberg.Timestamp(n) }
	stamps := ofNumber[arrow.Timestamp, *array.TimestampBuilder](timestamp, boxTimestamp)
	nanos := ofNumber[arrow.Timestamp, *array.TimestampBuilder](timestamp, func(n int64) any { return iceberg.TimestampNano(n) })
	decimals := func(b array.Builder, n int64, raw []byte) any {
		var high [8]byte
		copy(high[:], raw)
		// Mixes values of one word and of two.
		v := decimal128.FromI64(n)
		if len(raw)%2 == 0 {
			v = decimal128.New(int64(binary.LittleEndian.Uint64(high[:]))>>uint(len(raw)%60), uint64(n))
		}
		b.(*array.Decimal128Builder).Append(v)
		return iceberg.Decimal{Val: v, Scale: 2}
	}
	return []column{
		{arrow.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int32, ofNumber[int32, *array.Int32Builder](
			func(n int64) int32 { return int32(n) }, func(n int64) any { return int32(n) })},
		{arrow.PrimitiveTypes.Int64, iceberg.PrimitiveTypes.Int64, ofNumber[int64, *array.Int64Builder](
			func(n int64) int64 { return n }, func(n int64) any { return n })},
		{arrow.FixedWidthTypes.Date32, iceberg.PrimitiveTypes.Date, ofNumber[arrow.Date32, *array.Date32Builder](
			func(n int64) arrow.Date32 { return arrow.Date32(n) }, func(n int64) any { return iceberg.Date(n) })},
		{arrow.FixedWidthTypes.Time64us, iceberg.PrimitiveTypes.Time, ofNumber[arrow.Time64, *array.Time64Builder](
			func(n int64) arrow.Time64 { return arrow.Time64(n) }, func(n int64) any { return iceberg.Time(n) })},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, iceberg.PrimitiveTypes.Timestamp, stamps},
		{arrow.FixedWidthTypes.Timestamp_us, iceberg.PrimitiveTypes.TimestampTz, stamps},
		{&arrow.TimestampType{Unit: arrow.Nanosecond}, iceberg.PrimitiveTypes.TimestampNs, nanos},
		{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, iceberg.PrimitiveTypes.TimestampTzNs, nanos},
		{arrow.BinaryTypes.String, iceberg.PrimitiveTypes.String, ofBytes},
		{arrow.BinaryTypes.LargeString, iceberg.PrimitiveTypes.String, ofBytes},
		{arrow.BinaryTypes.Binary, iceberg.PrimitiveTypes.Binary, ofBytes},
		{arrow.BinaryTypes.LargeBinary, iceberg.PrimitiveTypes.Binary, ofBytes},
		{&arrow.FixedSizeBinaryType{ByteWidth: 5}, iceberg.FixedTypeOf(5), ofBytes},
		{&arrow.FixedSizeBinaryType{ByteWidth: 16}, iceberg.PrimitiveTypes.UUID, ofUUID},
		{&arrow.Decimal128Type{Precision: 38, Scale: 2}, iceberg.DecimalTypeOf(38, 2), decimals},
	}
}

// check builds a column of every type from the seed, with nulls, slices it,
// and compares every row with iceberg-go's own transform.
func check(t *testing.T, seed int64, raw []byte, n int) {
	t.Helper()
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	for _, c := range columns() {
		require.True(t, bucket.Supported(c.arrow), c.arrow)
		builder := array.NewBuilder(mem, c.arrow)
		transform := iceberg.BucketTransform{NumBuckets: n}.Transformer(c.iceberg)
		want := []int32{-7}
		const rows, from, to = 24, 3, 21
		for row := range rows {
			expected := bucket.Null
			if row%5 == 4 {
				builder.AppendNull()
			} else {
				v := c.appendTo(builder, seed*int64(row*row-40)>>(row%20), raw[:len(raw)*row/rows])
				expected = transform(v).Val
			}
			if row >= from && row < to {
				want = append(want, expected)
			}
		}
		whole := builder.NewArray()
		part := array.NewSlice(whole, from, to)
		got, err := bucket.Array([]int32{-7}, part, n)
		require.NoError(t, err)
		require.Equal(t, want, got, "%s in %d buckets", c.arrow, n)
		part.Release()
		whole.Release()
		builder.Release()
	}
}

func TestArrayAgainstIcebergGo(t *testing.T) {
	raw := []byte("the quick brown fox; \x00\xff\x80 and more than sixteen bytes")
	for _, n := range []int{1, 2, 3, 7, 16, 24, 1000, math.MaxInt32} {
		for _, seed := range []int64{0, 1, -1, 1_510_871_468_000_001, math.MaxInt64 / 3, math.MinInt64 + 5} {
			check(t, seed, raw, n)
		}
	}
}

func FuzzArrayAgainstIcebergGo(f *testing.F) {
	f.Add(int64(34), []byte("iceberg"), uint16(16))
	f.Add(int64(-1), []byte{0xff, 0x80, 0, 0, 1}, uint16(12))
	f.Fuzz(func(t *testing.T, seed int64, raw []byte, n uint16) { check(t, seed, raw, int(n)+1) })
}

// TestSpecificationVectorsOfArrays compares arrays of every type that has test
// vectors in the Iceberg specification, Appendix B.
func TestSpecificationVectorsOfArrays(t *testing.T) {
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	micros, microsUTC := stamp(arrow.Microsecond, ""), stamp(arrow.Microsecond, "UTC")
	nanos, nanosUTC := stamp(arrow.Nanosecond, ""), stamp(arrow.Nanosecond, "UTC")
	for _, c := range []struct {
		dt   arrow.DataType
		json string
		want int32
	}{
		{arrow.PrimitiveTypes.Int32, `34`, 2017239379},
		{arrow.PrimitiveTypes.Int64, `34`, 2017239379},
		{&arrow.Decimal128Type{Precision: 9, Scale: 2}, `"14.20"`, -500754589},
		{arrow.FixedWidthTypes.Date32, `"2017-11-16"`, -653330422},
		{arrow.FixedWidthTypes.Time64us, `"22:31:08"`, -662762989},
		{micros, `"2017-11-16T22:31:08"`, -2047944441},
		{micros, `"2017-11-16T22:31:08.000001"`, -1207196810},
		{microsUTC, `"2017-11-16T22:31:08Z"`, -2047944441},
		{microsUTC, `"2017-11-16T22:31:08.000001Z"`, -1207196810},
		{nanos, `"2017-11-16T22:31:08"`, -2047944441},
		{nanos, `"2017-11-16T22:31:08.000001001"`, -1207196810},
		{nanosUTC, `"2017-11-16T22:31:08Z"`, -2047944441},
		{nanosUTC, `"2017-11-16T22:31:08.000001001Z"`, -1207196810},
		{arrow.BinaryTypes.String, `"iceberg"`, 1210000089},
		{arrow.BinaryTypes.LargeString, `"iceberg"`, 1210000089},
		{&arrow.FixedSizeBinaryType{ByteWidth: 16}, `"95w+CWd8S72keT80nLeF5w=="`, 1488055340}, // uuid f79c3e09-…
		{&arrow.FixedSizeBinaryType{ByteWidth: 4}, `"AAECAw=="`, -188683207},
		{arrow.BinaryTypes.Binary, `"AAECAw=="`, -188683207},
	} {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.dt, strings.NewReader("["+c.json+"]"))
		require.NoError(t, err, c.dt)
		got, err := bucket.Hashes([]int32{5}, a)
		require.NoError(t, err)
		require.Equal(t, []int32{5, c.want}, got, "%s of %s", c.json, c.dt)
		buckets, err := bucket.Array(nil, a, 16)
		require.NoError(t, err)
		require.Equal(t, []int32{int32(buckettest.Of(c.want, 16))}, buckets)
	}
}

func TestEmptyArraysHaveNoBuckets(t *testing.T) {
	for _, c := range columns() {
		empty := array.NewBuilder(memory.DefaultAllocator, c.arrow).NewArray()
		got, err := bucket.Array(nil, empty, 16)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func TestArrayRefusesTypesAndBucketCounts(t *testing.T) {
	ints := array.NewBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64).NewArray()
	for _, n := range []int{0, -1, math.MaxInt32 + 1} {
		_, err := bucket.Array(nil, ints, n)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%d buckets", n)
	}
	for _, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8,
		arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Time64ns, arrow.ListOf(arrow.PrimitiveTypes.Int64),
	} {
		_, err := bucket.Array(nil, array.NewBuilder(memory.DefaultAllocator, dt).NewArray(), 16)
		require.Equal(t, fault.Invalid, fault.KindOf(err), dt)
		require.ErrorContains(t, err, dt.String())
		require.False(t, bucket.Supported(dt))
	}
}

func BenchmarkArray(b *testing.B) {
	const rows = 8192
	ints, grouped := array.NewInt64Builder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range rows {
		ints.Append(int64(i) * 7919)
		grouped.Append(int64(i/10) * 7919)
		texts.Append(uuid.NewSHA1(uuid.Nil, []byte{byte(i), byte(i >> 8)}).String()[:32])
	}
	for name, a := range map[string]arrow.Array{"int64": ints.NewArray(), "int64, ten of each": grouped.NewArray(), "utf8": texts.NewArray()} {
		b.Run(name, func(b *testing.B) {
			var dst []int32
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = bucket.Array(dst[:0], a, 16)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
