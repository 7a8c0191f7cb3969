package parquet_test

import (
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
)

// Rows in the files of testdata/make_spark.py.
const sparkRows = 200

// some returns the value, or null in every seventh row.
func some(i int, value string) string {
	if i%7 == 0 {
		return "null"
	}
	return value
}

// several returns a list of n values.
func several(n int, value func(j int) string) string {
	out := make([]string, n)
	for j := range out {
		out[j] = value(j)
	}
	return "[" + strings.Join(out, ",") + "]"
}

// sparkInstants are the instants of make_spark.py, in microseconds.
func sparkInstants() []int64 {
	out := make([]int64, 0, 10)
	for _, at := range []time.Time{
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(4, 2, 29, 23, 59, 59, 999999000, time.UTC),
		time.Date(1582, 10, 10, 12, 0, 0, 0, time.UTC),
		time.Date(1677, 9, 21, 0, 12, 43, 145223000, time.UTC),
		time.Date(1900, 3, 1, 12, 34, 56, 789012000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC),
		time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC),
		time.Date(2262, 4, 11, 23, 47, 16, 854776000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	} {
		out = append(out, at.UnixMicro())
	}
	return out
}

func nullable(name string, kind arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: kind, Nullable: true}
}

// fixture reads a file of testdata in batches of several lengths.
func fixture(t *testing.T, name string, fields []int, want arrow.RecordBatch) {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	for _, batchRows := range []int{0, 1, 33} {
		got := mustRead(t, open(t, content), parquet.ReadOptions{Fields: fields, Schema: want.Schema(), BatchRows: batchRows, Cores: cores.New(batchRows % 3)})
		requireEqual(t, want, got)
	}
}

// TestSparkInt96 reads INT96 timestamps of many years, top-level and nested, with and
// without a time zone.
//
// spec: resolve-60
func TestSparkInt96(t *testing.T) {
	instants := sparkInstants()
	other := func(i int) string {
		return strconv.FormatInt(time.Date(1999, 1, 1+i, 0, 0, 0, i*1000, time.UTC).UnixMicro(), 10)
	}
	lines, within := make([]string, sparkRows), make([]string, sparkRows)
	for i := range lines {
		at := strconv.FormatInt(instants[i%len(instants)], 10)
		inner := fmt.Sprintf(`{"at": %s}`, at)
		if i%3 == 0 {
			inner = `{"at": null}`
		}
		if within[i] = inner; i%7 == 0 {
			within[i] = `{"at": null}`
		}
		first := at
		if i%2 == 0 {
			first = other(i)
		}
		lines[i] = fmt.Sprintf(`{"at": %s, "few": %d, "inner": %s, "list": %s, "map": %s}`, some(i, first), instants[i%3], some(i, inner),
			some(i, several(i%4, func(j int) string {
				if j == 1 {
					return "null"
				}
				return other(i)
			})),
			some(i, several(i%3, func(j int) string { return fmt.Sprintf(`{"key": "k%d", "value": %s}`, j, other(i)) })))
	}
	for _, zone := range []string{"UTC", ""} {
		stamp := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone}
		sc := arrow.NewSchema([]arrow.Field{
			nullable("at", stamp),
			{Name: "few", Type: stamp},
			nullable("inner", arrow.StructOf(nullable("at", stamp))),
			nullable("list", list(stamp, true)), nullable("map", arrow.MapOf(arrow.BinaryTypes.String, stamp)),
		}, nil)
		want := table(t, sc, "["+strings.Join(lines, ",")+"]")
		for _, name := range []string{"spark-int96.parquet", "spark-int96-v2.parquet"} {
			fixture(t, name, []int{1, 2, 3, 5, 6}, want)
			inside := table(t, arrow.NewSchema([]arrow.Field{nullable("at", stamp)}, nil), "["+strings.Join(within, ",")+"]")
			fixture(t, name, []int{4}, inside)
		}
	}
}

// TestSparkLists reads two-level lists of numbers, strings, structs and lists, and maps
// of the older form.
//
// spec: resolve-61
func TestSparkLists(t *testing.T) {
	pair := arrow.StructOf(nullable("a", arrow.PrimitiveTypes.Int32), nullable("b", arrow.BinaryTypes.String))
	single := arrow.StructOf(nullable("only", arrow.PrimitiveTypes.Int64))
	sc := arrow.NewSchema([]arrow.Field{
		nullable("ints", list(arrow.PrimitiveTypes.Int32, false)),
		nullable("texts", list(arrow.BinaryTypes.String, false)),
		nullable("pairs", list(pair, false)),
		nullable("singles", list(single, false)),
		nullable("nested", list(list(arrow.PrimitiveTypes.Int64, false), false)),
		nullable("bags", list(arrow.PrimitiveTypes.Int32, true)),
		nullable("maps", arrow.MapOf(arrow.BinaryTypes.String, list(arrow.PrimitiveTypes.Int32, false))),
		nullable("price", &arrow.Decimal128Type{Precision: 9, Scale: 2}),
		{Name: "required", Type: list(arrow.PrimitiveTypes.Float64, false)},
	}, nil)
	lines := make([]string, sparkRows)
	for i := range lines {
		n := i % 4
		number := strconv.Itoa
		but1 := func(j int, value string) string {
			if j == 1 {
				return "null"
			}
			return value
		}
		lines[i] = fmt.Sprintf(`{"ints": %s, "texts": %s, "pairs": %s, "singles": %s, "nested": %s, "bags": %s, "maps": %s, "price": %s, "required": %s}`,
			some(i, several(n, func(j int) string { return number(i + j) })),
			some(i, several(n, func(j int) string { return fmt.Sprintf(`"t%d"`, i+j) })),
			some(i, several(n, func(j int) string { return fmt.Sprintf(`{"a": %d, "b": %s}`, i, but1(j, fmt.Sprintf(`"b%d"`, j))) })),
			some(i, several(n, func(j int) string { return fmt.Sprintf(`{"only": %s}`, but1(j, number(i*j))) })),
			some(i, several(n, func(j int) string { return several(j, func(k int) string { return number(i*10 + k) }) })),
			some(i, several(n, func(j int) string { return but1(j, number(j)) })),
			some(i, several(n, func(j int) string { return fmt.Sprintf(`{"key": "k%d", "value": %s}`, j, several(j, number)) })),
			some(i, fmt.Sprintf(`"%s"`, big.NewRat(int64(i*101-5000), 100).FloatString(2))),
			several(n, func(j int) string { return fmt.Sprint(float64(j) / 2) }))
	}
	want := table(t, sc, "["+strings.Join(lines, ",")+"]")
	for _, name := range []string{"spark-legacy.parquet", "spark-legacy-v2.parquet"} {
		fixture(t, name, ids(9), want)
	}
}

// TestSparkEncodings reads the encodings of parquet-mr's version 2 pages, including
// decimals as deltas of fixed-length bytes, and LZ4 in Hadoop's framing.
//
// spec: resolve-62
func TestSparkEncodings(t *testing.T) {
	decimal := func(precision, scale int32) arrow.DataType {
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}
	}
	sc := arrow.NewSchema([]arrow.Field{
		nullable("int", arrow.PrimitiveTypes.Int32),
		{Name: "long", Type: arrow.PrimitiveTypes.Int64},
		nullable("text", arrow.BinaryTypes.String),
		nullable("large", decimal(38, 4)), nullable("flag", arrow.FixedWidthTypes.Boolean), nullable("double", arrow.PrimitiveTypes.Float64),
		nullable("inner", arrow.StructOf(nullable("large", decimal(30, 4)))), nullable("list", list(decimal(20, 2), true)),
		{Name: "required", Type: decimal(25, 1)},
		nullable("long text", arrow.BinaryTypes.String),
	}, nil)
	power := func(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	text := func(unscaled *big.Int, scale int) string {
		return fmt.Sprintf("%q", new(big.Rat).SetFrac(unscaled, power(scale)).FloatString(scale))
	}
	lines := make([]string, sparkRows)
	for i := range lines {
		large := text(new(big.Int).Sub(new(big.Int).Mul(big.NewInt(int64(i)), power(20)), power(22)), 4)
		inner := large
		if i%5 == 0 {
			inner = "null"
		}
		lines[i] = fmt.Sprintf(`{"int": %s, "long": %d000000000000, "text": %s, "large": %s, "flag": %s, "double": %s, "inner": %s, "list": %s, "required": %s, "long text": %q}`,
			some(i, strconv.Itoa(i*3-100)), i, some(i, fmt.Sprintf(`"row %d"`, i)), some(i, large), some(i, strconv.FormatBool(i%3 == 0)), some(i, fmt.Sprint(float64(i)/4)),
			some(i, `{"large": `+inner+`}`),
			some(i, several(i%4, func(j int) string {
				if j == 1 {
					return "null"
				}
				return text(big.NewInt(int64(i*j-7)), 2)
			})),
			text(new(big.Int).Add(new(big.Int).Mul(big.NewInt(int64(i)), power(18)), big.NewInt(5)), 1), strings.Repeat(strconv.Itoa(i%10), 4000))
	}
	want := table(t, sc, "["+strings.Join(lines, ",")+"]")
	for _, name := range []string{"spark-lz4-v1.parquet", "spark-lz4-v2.parquet", "spark-gzip-v2.parquet", "spark-fallback-v2.parquet"} {
		fixture(t, name, ids(10), want)
	}
}
