package parquet_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// TestDuckDBFiles reads the rows of testdata/make_duckdb.py.
//
// spec: resolve-62, resolve-64
func TestDuckDBFiles(t *testing.T) {
	t.Parallel()
	i64, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	sc := arrow.NewSchema([]arrow.Field{
		nullable("int", arrow.PrimitiveTypes.Int32), nullable("text", text), nullable("small", &arrow.Decimal128Type{Precision: 9, Scale: 2}),
		nullable("large", &arrow.Decimal128Type{Precision: 38, Scale: 5}), nullable("list", list(i64, true)),
		nullable("struct", arrow.StructOf(nullable("a", i64), nullable("b", text))), nullable("map", arrow.MapOf(text, i64)),
		nullable("flag", arrow.FixedWidthTypes.Boolean), nullable("double", arrow.PrimitiveTypes.Float64), nullable("at", &arrow.TimestampType{Unit: arrow.Microsecond}),
	}, nil)
	unless := func(null bool, value string) string {
		if null {
			return "null"
		}
		return value
	}
	lines := make([]string, 300)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"int": %[1]d, "text": %[2]s, "small": %[3]s, "large": "%[1]d0000000000000000000", "list": %[4]s, "struct": {"a": %[1]d, "b": "x%[1]d"},
			"map": [{"key": "k%[1]d", "value": %[1]d}], "flag": %[5]t, "double": %[6]s, "at": %[7]d}`,
			i, unless(i%7 == 0, fmt.Sprintf(`"row %d"`, i%50)), unless(i%5 == 0, fmt.Sprintf(`"%d"`, i*37)), unless(i%3 == 0, fmt.Sprintf("[%d, %d, null]", i, i+1)),
			i%2 == 0, strconv.FormatFloat(float64(i)/8, 'f', -1, 64), time.Date(2001, 1, 1, i, 0, 0, 0, time.UTC).UnixMicro())
	}
	want := table(t, sc, "["+strings.Join(lines, ",")+"]")
	for _, name := range []string{"duckdb-1.parquet", "duckdb-2.parquet"} {
		fixture(t, name, ids(10), want)
		content, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		f, missed := open(t, content), 0
		for i := range 100 {
			may, err := f.MayHold(t.Context(), 0, 2, text, []any{fmt.Sprintf("row %d", i)})
			require.NoError(t, err)
			if i < 50 {
				require.True(t, may, "row %d is present", i)
			} else if !may {
				missed++
			}
		}
		require.Greater(t, missed, 40, "the filter of %s", name)
	}
}

// TestDuckDBDeltas reads the rows of testdata/make_duckdb_wide.py, whose deltas of INT32 exceed 32 bits:
// the sums wrap.
//
// spec: resolve-62
func TestDuckDBDeltas(t *testing.T) {
	t.Parallel()
	i32, i64 := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64
	sc := arrow.NewSchema([]arrow.Field{
		nullable("number", i32), nullable("whole", i32), nullable("many", list(i32, true)),
		nullable("pair", arrow.StructOf(nullable("a", i32), nullable("b", i64))), nullable("moment", arrow.FixedWidthTypes.Date32), nullable("large", i64),
	}, nil)
	days := func(year int) int64 { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60) }
	lines := make([]string, 700)
	for i := range lines {
		even := i%2 == 0
		number, many, elements := strconv.FormatInt(choose(even, math.MaxInt32, math.MinInt32), 10), "null", make([]string, i%6)
		if i%7 == 3 {
			number = "null"
		}
		for j := range elements {
			elements[j] = strconv.FormatInt(choose(j%2 == 0, math.MaxInt32-int64(i), math.MinInt32+int64(j)), 10)
			if j%3 == 0 {
				elements[j] = "null"
			}
		}
		if i%5 != 0 {
			many = "[" + strings.Join(elements, ",") + "]"
		}
		lines[i] = fmt.Sprintf(`{"number": %s, "whole": %d, "many": %s, "pair": {"a": %d, "b": %d}, "moment": %d, "large": %d}`,
			number, choose(even, math.MaxInt32, math.MinInt32+int64(i)), many, choose(even, math.MinInt32, math.MaxInt32), choose(even, math.MinInt64, math.MaxInt64),
			choose(even, days(9999), days(1)), []int64{math.MinInt64, math.MaxInt64, int64(i)}[i%3])
	}
	fixture(t, "duckdb-wide.parquet", ids(6), table(t, sc, "["+strings.Join(lines, ",")+"]"))
}

func choose(first bool, a, b int64) int64 {
	if first {
		return a
	}
	return b
}
