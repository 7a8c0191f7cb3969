package parquet_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

func statistics(t *testing.T, kind arrow.DataType, values string, opts parquettest.Options) (parquet.Statistics, bool) {
	t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: kind, Nullable: true}}, nil)
	return open(t, write(t, opts, column(t, sc, values))).Statistics(0, 1, kind)
}

func TestStatistics(t *testing.T) {
	stamp := func(unit arrow.TimeUnit) arrow.DataType { return &arrow.TimestampType{Unit: unit, TimeZone: "UTC"} }
	for name, c := range map[string]struct {
		kind         arrow.DataType
		values       string
		lower, upper any
		nulls        int64
	}{
		"bool":           {arrow.FixedWidthTypes.Boolean, `[false,true,null]`, false, true, 1},
		"int32":          {arrow.PrimitiveTypes.Int32, `[-5,3,null,null]`, int64(-5), int64(3), 2},
		"int64":          {arrow.PrimitiveTypes.Int64, `[-9223372036854775808,3]`, int64(math.MinInt64), int64(3), 0},
		"float32":        {arrow.PrimitiveTypes.Float32, `[1.5,-2.5]`, -2.5, 1.5, 0},
		"float64":        {arrow.PrimitiveTypes.Float64, `[1.5,-2.5]`, -2.5, 1.5, 0},
		"string":         {arrow.BinaryTypes.String, `["b","ä","a"]`, "a", "ä", 0},
		"binary":         {arrow.BinaryTypes.Binary, `["AQ==","/w=="]`, []byte{1}, []byte{0xff}, 0},
		"fixed":          {&arrow.FixedSizeBinaryType{ByteWidth: 1}, `["AQ==","/w=="]`, []byte{1}, []byte{0xff}, 0},
		"decimal":        {&arrow.Decimal128Type{Precision: 38, Scale: 2}, `["-1.25","3.00"]`, big.NewInt(-125), big.NewInt(300), 0},
		"small decimal":  {&arrow.Decimal128Type{Precision: 9, Scale: 2}, `["-1.25","3.00"]`, big.NewInt(-125), big.NewInt(300), 0},
		"date":           {arrow.FixedWidthTypes.Date32, `["1969-12-31","1970-01-02"]`, int64(-1), int64(1), 0},
		"time":           {arrow.FixedWidthTypes.Time64us, `["00:00:00.000001","00:00:01"]`, int64(1), int64(1_000_000), 0},
		"micros":         {stamp(arrow.Microsecond), `[-1,5]`, int64(-1), int64(5), 0},
		"millis":         {stamp(arrow.Millisecond), `[-1,5]`, int64(-1000), int64(5000), 0},
		"nanos":          {stamp(arrow.Nanosecond), `[-1001,1001]`, int64(-2), int64(2), 0},
		"whole nanos":    {stamp(arrow.Nanosecond), `[-1000,1000]`, int64(-1), int64(1), 0},
		"nanos around 0": {stamp(arrow.Nanosecond), `[-1,1]`, int64(-1), int64(1), 0},
		"only nulls":     {arrow.PrimitiveTypes.Int32, `[null,null]`, nil, nil, 2},
		"millis beyond":  {stamp(arrow.Millisecond), `[-9223372036854775807,9223372036854775807]`, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, integers := range []bool{false, true} {
				got, ok := statistics(t, c.kind, c.values, parquettest.Options{DecimalAsInteger: integers})
				require.True(t, ok)
				require.Equal(t, c.lower, got.Lower)
				require.Equal(t, c.upper, got.Upper)
				require.Equal(t, c.nulls, got.Nulls)
				require.Equal(t, strings.Contains(name, "float"), got.MayHaveNaN)
				if d, ok := c.kind.(arrow.DecimalType); ok {
					require.Equal(t, d.GetScale(), got.Scale)
				}
			}
		})
	}
}

func TestNoStatistics(t *testing.T) {
	_, ok := statistics(t, list(arrow.PrimitiveTypes.Int64, true), `[[1]]`, parquettest.Options{})
	require.False(t, ok, "lists")
	_, ok = statistics(t, arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32}), `[{"a":1}]`, parquettest.Options{})
	require.False(t, ok, "structs")
	_, ok = statistics(t, arrow.PrimitiveTypes.Int64, `[1]`, parquettest.Options{NoStatistics: true})
	require.False(t, ok, "none in the file")
	f := open(t, write(t, parquettest.Options{}, numbers(t, 0, 10)))
	for _, at := range [][2]int{{0, 99}, {1, 1}, {-1, 1}} {
		_, ok = f.Statistics(at[0], at[1], arrow.PrimitiveTypes.Int64)
		require.False(t, ok)
	}
	got, ok := statistics(t, extensions.NewUUIDType(), `["f79c3e09-677c-4bbd-a479-3f349cb785e7"]`, parquettest.Options{})
	require.True(t, ok)
	require.Len(t, got.Lower, 16)
}

// TestStatisticsOfPromotedDates expects midnights where the table has timestamps.
//
// spec: resolve-63
func TestStatisticsOfPromotedDates(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.FixedWidthTypes.Date32, Nullable: true}}, nil)
	of := func(values string) parquet.Statistics {
		got, ok := open(t, write(t, parquettest.Options{}, column(t, sc, values))).Statistics(0, 1, &arrow.TimestampType{Unit: arrow.Nanosecond})
		require.True(t, ok)
		return got
	}
	got := of(`["1969-12-31","1970-01-02",null]`)
	require.Equal(t, []any{int64(-86_400_000_000), int64(86_400_000_000), int64(1)}, []any{got.Lower, got.Upper, got.Nulls})
	got = of(`[-2147483648,2147483647]`)
	require.Equal(t, []any{nil, nil}, []any{got.Lower, got.Upper}, "beyond 64 bits")
}

// TestStatisticsOfOldWriters reads files of writers that compared binary as signed bytes,
// and decimals in no defined order.
func TestStatisticsOfOldWriters(t *testing.T) {
	for name, c := range map[string]struct {
		kind   arrow.DataType
		values string
		by     string
		known  bool
	}{
		"binary":   {arrow.BinaryTypes.String, `["a","b"]`, "parquet-mr version 1.8.0 (build x)", false},
		"ints":     {arrow.PrimitiveTypes.Int64, `[1,2]`, "parquet-mr version 1.8.0 (build x)", true},
		"new":      {arrow.BinaryTypes.String, `["a","b"]`, "parquet-mr version 1.15.2 (build x)", true},
		"decimals": {&arrow.Decimal128Type{Precision: 38, Scale: 2}, `["-1.25","3.00"]`, "parquet-cpp version 1.5.1-SNAPSHOT", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := statistics(t, c.kind, c.values, parquettest.Options{CreatedBy: c.by})
			require.True(t, ok)
			require.Equal(t, int64(0), got.Nulls)
			require.Equal(t, c.known, got.Lower != nil && got.Upper != nil, "%v", got)
		})
	}
}

func TestStatisticsOfFloats(t *testing.T) {
	sc := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}, nil)
	of := func(values ...float64) parquet.Statistics {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(values, nil)
		got, ok := open(t, write(t, parquettest.Options{}, single(sc, b.NewArray()))).Statistics(0, 1, arrow.PrimitiveTypes.Float64)
		require.True(t, ok)
		require.True(t, got.MayHaveNaN)
		return got
	}
	zero := of(0, math.Copysign(0, -1))
	require.True(t, math.Signbit(zero.Lower.(float64)))
	require.False(t, math.Signbit(zero.Upper.(float64)))
	zero = of(0)
	require.True(t, math.Signbit(zero.Lower.(float64)))
	require.False(t, math.Signbit(zero.Upper.(float64)))
	for _, values := range [][]float64{{math.NaN()}, {1, math.NaN(), 2}} {
		got := of(values...)
		for _, bound := range []any{got.Lower, got.Upper} {
			if f, ok := bound.(float64); ok {
				require.False(t, math.IsNaN(f))
			}
		}
	}
	inf := of(math.Inf(-1), math.Inf(1))
	require.Equal(t, fmt.Sprint(math.Inf(-1), math.Inf(1)), fmt.Sprint(inf.Lower, inf.Upper))
}
