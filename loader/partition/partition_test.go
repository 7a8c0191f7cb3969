package partition_test

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/partition"
)

// column makes a column of texts as the library parses them; "" is null for other types than texts.
func column(t *testing.T, of arrow.DataType, values ...string) arrow.Array {
	t.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, of)
	defer b.Release()
	for _, v := range values {
		switch b := b.(type) {
		case *array.BinaryBuilder:
			bytes, err := hex.DecodeString(v)
			require.NoError(t, err)
			b.Append(bytes)
		case *array.FixedSizeBinaryBuilder:
			bytes, err := hex.DecodeString(v)
			require.NoError(t, err)
			b.Append(bytes)
		default:
			if v == "null" {
				b.AppendNull()
				continue
			}
			if of, ok := of.(*arrow.TimestampType); ok && of.TimeZone != "" {
				v += "Z"
			}
			require.NoError(t, b.AppendValueFromString(v))
		}
	}
	return b.NewArray()
}

// divide returns the values of each row's partition.
func divide(t *testing.T, fields []partition.By, columns ...arrow.Array) [][]any {
	t.Helper()
	of := make([]arrow.Field, len(columns))
	for i, c := range columns {
		of[i] = arrow.Field{Name: string(rune('a' + i)), Type: c.DataType(), Nullable: true}
	}
	d, err := partition.New(arrow.NewSchema(of, nil), fields)
	require.NoError(t, err)
	rows := make([]int32, columns[0].Len())
	require.NoError(t, d.Assign(rows, columns))
	var out [][]any
	for _, p := range rows {
		require.Less(t, int(p), d.Len())
		out = append(out, d.Values(int(p)))
	}
	return out
}

// The types of the tests.
var (
	long      = arrow.PrimitiveTypes.Int64
	integer   = arrow.PrimitiveTypes.Int32
	date      = arrow.FixedWidthTypes.Date32
	clock     = arrow.FixedWidthTypes.Time64us
	micros    = &arrow.TimestampType{Unit: arrow.Microsecond}
	nanos     = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	money     = &arrow.Decimal128Type{Precision: 9, Scale: 2}
	uuid      = &arrow.FixedSizeBinaryType{ByteWidth: 16}
	text      = arrow.BinaryTypes.String
	bytesType = arrow.BinaryTypes.Binary
)

// TestBucketsAreThoseOfTheSpecification has the hashes of the Iceberg specification, Appendix B.
//
// spec: stage-3
func TestBucketsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of    arrow.DataType
		value string
		hash  int32
	}{
		{integer, "34", 2017239379},
		{long, "34", 2017239379},
		{money, "14.20", -500754589},
		{date, "2017-11-16", -653330422},
		{clock, "22:31:08", -662762989},
		{micros, "2017-11-16 22:31:08", -2047944441},
		{nanos, "2017-11-16 22:31:08", -2047944441},
		{text, "iceberg", 1210000089},
		{uuid, "f79c3e09677c4bbda4793f349cb785e7", 1488055340},
		{bytesType, "00010203", -188683207},
	} {
		for _, n := range []int{1, 16, 1000, math.MaxInt32} {
			got := divide(t, []partition.By{{Transform: catalog.Transform{Kind: catalog.Bucket, N: n}}}, column(t, c.of, c.value))
			require.Equal(t, [][]any{{int64(int(c.hash&math.MaxInt32) % n)}}, got, "%s of %d", c.of, n)
		}
	}
}

// TestTransformsAreThoseOfTheSpecification has the values that the specification and its reference
// implementation give.
//
// spec: stage-3
func TestTransformsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	times := []string{"1970-01-01 00:00:00", "2017-11-16 22:31:08", "1969-12-31 23:59:59.999999", "1969-01-01 00:00:00", "null", "2000-02-29 01:00:00"}
	days := []string{"1970-01-01", "2017-11-16", "1969-12-31", "1969-01-01", "null", "2000-02-29"}
	for _, c := range []struct {
		transform catalog.TransformKind
		n         int
		of        arrow.DataType
		values    []string
		want      []any
	}{
		{catalog.Identity, 0, arrow.FixedWidthTypes.Boolean, []string{"true", "false", "null"}, []any{true, false, nil}},
		{catalog.Identity, 0, arrow.PrimitiveTypes.Float32, []string{"1.5", "-0", "0", "NaN", "null"}, []any{1.5, math.Copysign(0, -1), 0.0, nil, nil}},
		{catalog.Identity, 0, integer, []string{"7", "-7", "null"}, []any{int64(7), int64(-7), nil}},
		{catalog.Identity, 0, text, []string{"x", "", "null"}, []any{"x", "", nil}},
		{catalog.Identity, 0, uuid, []string{strings.Repeat("61", 16)}, []any{strings.Repeat("a", 16)}},
		{catalog.Identity, 0, money, []string{"-12.30", "5"}, []any{"-12.30", "5.00"}},
		{catalog.Identity, 0, date, []string{"1970-01-03"}, []any{int64(2)}},
		{catalog.Identity, 0, nanos, []string{"1970-01-01 00:00:01"}, []any{int64(1_000_000_000)}},
		{catalog.Truncate, 10, integer, []string{"1", "-1", "9", "10", "-10", "null"}, []any{int64(0), int64(-10), int64(0), int64(10), int64(-10), nil}},
		{catalog.Truncate, 10, long, []string{"1", "-1", "1099511627779"}, []any{int64(0), int64(-10), int64(1099511627770)}},
		{catalog.Truncate, 10, money, []string{"12.34", "12.30", "12.29", "0.05", "-0.05"}, []any{"12.30", "12.30", "12.20", "0.00", "-0.10"}},
		{catalog.Truncate, 3, text, []string{"iceberg", "ic", "äöüß", "null"}, []any{"ice", "ic", "äöü", nil}},
		{catalog.Truncate, 2, bytesType, []string{"00010203", "ff"}, []any{"\x00\x01", "\xff"}},
		{catalog.Year, 0, micros, times, []any{int64(0), int64(47), int64(-1), int64(-1), nil, int64(30)}},
		{catalog.Month, 0, micros, times, []any{int64(0), int64(574), int64(-1), int64(-12), nil, int64(361)}},
		{catalog.Day, 0, micros, times, []any{int64(0), int64(17486), int64(-1), int64(-365), nil, int64(11016)}},
		{catalog.Hour, 0, micros, times, []any{int64(0), int64(419686), int64(-1), int64(-8760), nil, int64(264385)}},
		{catalog.Hour, 0, nanos, times, []any{int64(0), int64(419686), int64(-1), int64(-8760), nil, int64(264385)}},
		{catalog.Year, 0, date, days, []any{int64(0), int64(47), int64(-1), int64(-1), nil, int64(30)}},
		{catalog.Month, 0, date, days, []any{int64(0), int64(574), int64(-1), int64(-12), nil, int64(361)}},
		{catalog.Day, 0, date, days, []any{int64(0), int64(17486), int64(-1), int64(-365), nil, int64(11016)}},
	} {
		got := divide(t, []partition.By{{Transform: catalog.Transform{Kind: c.transform, N: c.n}}}, column(t, c.of, c.values...))
		for i, want := range c.want {
			if c.values[i] == "NaN" {
				require.True(t, math.IsNaN(got[i][0].(float64)))
				continue
			}
			require.Equal(t, []any{want}, got[i], "%s[%d] of %s %s", c.transform, c.n, c.of, c.values[i])
			if f, ok := want.(float64); ok {
				require.Equal(t, math.Signbit(f), math.Signbit(got[i][0].(float64)))
			}
		}
	}
}

// TestPartitionsHaveTheValuesOfAllFields divides by several fields, batch by batch.
//
// spec: stage-2
func TestPartitionsHaveTheValuesOfAllFields(t *testing.T) {
	t.Parallel()
	schema := arrow.NewSchema([]arrow.Field{{Name: "day", Type: date, Nullable: true}, {Name: "id", Type: long}, {Name: "place", Type: text, Nullable: true}}, nil)
	d, err := partition.New(schema, []partition.By{
		{Column: 2, Transform: catalog.Transform{Kind: catalog.Identity}},
		{Column: 0, Transform: catalog.Transform{Kind: catalog.Month}},
		{Column: 1, Transform: catalog.Transform{Kind: catalog.Truncate, N: 100}},
	})
	require.NoError(t, err)
	require.Zero(t, d.Len())
	first, second := make([]int32, 4), make([]int32, 3)
	require.NoError(t, d.Assign(first, []arrow.Array{
		column(t, date, "1970-02-01", "1970-02-28", "null", "1970-02-01"), column(t, long, "5", "99", "5", "100"), column(t, text, "b", "b", "b", "b"),
	}))
	require.NoError(t, d.Assign(second, []arrow.Array{
		column(t, date, "1970-02-02", "1970-02-02", "1970-01-01"), column(t, long, "7", "7", "7"), column(t, text, "b", "a", "null"),
	}))
	require.Equal(t, first[0], first[1])
	require.Equal(t, first[0], second[0])
	require.Equal(t, 5, d.Len())
	require.Equal(t, []any{"b", int64(1), int64(0)}, d.Values(int(first[0])))
	require.Equal(t, []any{"b", nil, int64(0)}, d.Values(int(first[2])))
	require.Equal(t, []any{"b", int64(1), int64(100)}, d.Values(int(first[3])))
	require.Equal(t, []any{"a", int64(1), int64(0)}, d.Values(int(second[1])))
	require.Equal(t, []any{nil, int64(0), int64(0)}, d.Values(int(second[2])))
	order := []int32{second[2], second[1], first[2], first[0], first[3]}
	for i, a := range order {
		for j, b := range order {
			require.Equal(t, i < j, d.Compare(int(a), int(b)) < 0)
			require.Equal(t, i == j, d.Compare(int(a), int(b)) == 0)
		}
	}
	require.Positive(t, d.Bytes())
}

// TestPartitionsWithoutFieldsAreOne divides by nothing.
func TestPartitionsWithoutFieldsAreOne(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]any{{}, {}}, divide(t, nil, column(t, long, "1", "2")))
}

// TestFloatsAndDecimalsAreComparedByValue compares partitions of numbers.
func TestFloatsAndDecimalsAreComparedByValue(t *testing.T) {
	t.Parallel()
	for _, values := range []arrow.Array{
		column(t, arrow.PrimitiveTypes.Float64, "null", "-Inf", "-2", "-1", "-0", "0", "1", "+Inf", "NaN"), column(t, money, "null", "-9.00", "-1.00", "0.00", "2.00", "10.00"),
	} {
		d, err := partition.New(arrow.NewSchema([]arrow.Field{{Name: "x", Type: values.DataType(), Nullable: true}}, nil),
			[]partition.By{{Transform: catalog.Transform{Kind: catalog.Identity}}})
		require.NoError(t, err)
		rows := make([]int32, values.Len())
		require.NoError(t, d.Assign(rows, []arrow.Array{values}))
		for i := range rows[1:] {
			require.Negative(t, d.Compare(int(rows[i]), int(rows[i+1])), "%s", values)
			require.Positive(t, d.Compare(int(rows[i+1]), int(rows[i])), "%s", values)
		}
	}
}

// TestTransformsThatCannotBeAppliedAreRefused names the transform, the column and its type.
//
// spec: stage-5
func TestTransformsThatCannotBeAppliedAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of        arrow.DataType
		transform catalog.Transform
	}{
		{text, catalog.Transform{Kind: catalog.Day}},
		{date, catalog.Transform{Kind: catalog.Hour}},
		{arrow.PrimitiveTypes.Float64, catalog.Transform{Kind: catalog.Bucket, N: 8}},
		{arrow.PrimitiveTypes.Float64, catalog.Transform{Kind: catalog.Truncate, N: 8}},
		{uuid, catalog.Transform{Kind: catalog.Truncate, N: 8}},
		{arrow.ListOf(long), catalog.Transform{Kind: catalog.Identity}},
		{&arrow.TimestampType{Unit: arrow.Second}, catalog.Transform{Kind: catalog.Day}},
		{long, catalog.Transform{Kind: catalog.Other}},
		{long, catalog.Transform{Kind: catalog.Bucket}},
		{long, catalog.Transform{Kind: catalog.Truncate, N: -1}},
	} {
		_, err := partition.New(arrow.NewSchema([]arrow.Field{{Name: "this", Type: c.of}}, nil), []partition.By{{Transform: c.transform}})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v of %s", c.transform, c.of)
		require.ErrorContains(t, err, "this")
	}
	_, err := partition.New(arrow.NewSchema(nil, nil), []partition.By{{Transform: catalog.Transform{Kind: catalog.Identity}}})
	require.Equal(t, fault.Internal, fault.KindOf(err))
	d, err := partition.New(arrow.NewSchema([]arrow.Field{{Name: "this", Type: long}}, nil), []partition.By{{Transform: catalog.Transform{Kind: catalog.Identity}}})
	require.NoError(t, err)
	require.Equal(t, fault.Internal, fault.KindOf(d.Assign(make([]int32, 1), []arrow.Array{column(t, text, "1")})))
}

// TestManyValuesAreFoundAgain divides by values within and beyond the list of small ones.
func TestManyValuesAreFoundAgain(t *testing.T) {
	t.Parallel()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	const rows = 20_000
	for i := range rows {
		b.Append(int64(i) - 6)
	}
	values := b.NewArray()
	defer values.Release()
	got := divide(t, []partition.By{{Transform: catalog.Transform{Kind: catalog.Identity}}}, values)
	for i := range rows {
		require.Equal(t, []any{values.(*array.Int64).Value(i)}, got[i])
	}
}
