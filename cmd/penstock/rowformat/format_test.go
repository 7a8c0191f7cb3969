package rowformat

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// everyType returns a batch with a column of every Iceberg type, some of them nested, and a
// dictionary column. Its last row has only nulls.
func everyType(t *testing.T) arrow.RecordBatch {
	t.Helper()
	utf8 := arrow.BinaryTypes.String
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	price := &arrow.Decimal128Type{Precision: 38, Scale: 3}
	pair := arrow.StructOf(arrow.Field{Name: "z", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: `a"`, Type: utf8, Nullable: true})
	var fields []arrow.Field
	var columns []arrow.Array
	add := func(name string, dt arrow.DataType, text string) {
		column, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(text))
		require.NoError(t, err, name)
		fields, columns = append(fields, arrow.Field{Name: name, Type: dt, Nullable: true}), append(columns, column)
	}
	add("long", arrow.PrimitiveTypes.Int64, `[9223372036854775807, -1, null]`)
	add("int", arrow.PrimitiveTypes.Int32, `[-2147483648, 0, null]`)
	add("truth", arrow.FixedWidthTypes.Boolean, `[true, false, null]`)
	add("float", arrow.PrimitiveTypes.Float32, `[0.1, 16777216, null]`)
	doubles := array.NewFloat64Builder(memory.DefaultAllocator)
	doubles.AppendValues([]float64{1e-7, math.Inf(-1), 0}, []bool{true, true, false})
	fields, columns = append(fields, arrow.Field{Name: "double", Type: arrow.PrimitiveTypes.Float64, Nullable: true}), append(columns, doubles.NewArray())
	add("decimal", price, `["12345678901234567890123456789012345.678", "-0.050", null]`)
	add("text", utf8, `["say \"<hi>\", ünï", " two\nlines\t", null]`)
	add("word", utf8, `["", "null", null]`)
	add("large", arrow.BinaryTypes.LargeString, `["plain", "with,comma", null]`)
	add("binary", arrow.BinaryTypes.Binary, `["AP8=", "", null]`)
	add("fixed", &arrow.FixedSizeBinaryType{ByteWidth: 3}, `["AP8B", "AAAA", null]`)
	add("date", arrow.FixedWidthTypes.Date32, `["2026-10-01", "1969-12-31", null]`)
	add("time", arrow.FixedWidthTypes.Time64us, `["01:02:03.000004", "23:59:59", null]`)
	add("micros", stamp(arrow.Microsecond, ""), `["2026-10-01T01:02:03.5", "1969-12-31T23:59:59.999999", null]`)
	add("micros_utc", stamp(arrow.Microsecond, "UTC"), `["2026-10-01T01:02:03Z", "0001-01-01T00:00:00Z", null]`)
	add("nanos", stamp(arrow.Nanosecond, ""), `["2026-10-01T01:02:03.000000005", "1677-09-22T00:00:00", null]`)
	add("list", arrow.ListOf(utf8), `[["a", null, "b,\""], [], null]`)
	add("vector", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1, 2.5], [-0.125, 1e9], null]`)
	add("lists", arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64)), `[[[1], null, [2, 9007199254740993]], [[]], null]`)
	add("prices", arrow.ListOf(price), `[["1.5", null], ["0"], null]`)
	add("struct", pair, `[{"z": 1, "a\"": "x"}, {"z": null, "a\"": null}, null]`)
	add("map", arrow.MapOf(utf8, arrow.PrimitiveTypes.Int32), `[[{"key": "z", "value": 1}, {"key": "a", "value": null}], [], null]`)
	add("dictionary", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: utf8}, `["one", "two", null]`)
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(columns[0].Len()))
}

// Golden files have every type in each text format. Slices of the batch give the same text.
func TestEveryTypeInEachFormat(t *testing.T) {
	batch := everyType(t)
	for name, file := range map[string]string{"table": "types.txt", "csv": "types.csv", "jsonl": "types.jsonl"} {
		t.Run(name, func(t *testing.T) {
			written := func(parts ...arrow.RecordBatch) string {
				var out strings.Builder
				f, err := New(name, &out, batch.Schema(), 0)
				require.NoError(t, err)
				for _, part := range parts {
					require.NoError(t, f.Write(part))
				}
				require.NoError(t, f.Close())
				return out.String()
			}
			golden(t, file, written(batch))
			require.Equal(t, written(batch), written(batch.NewSlice(0, 1), batch.NewSlice(1, 3)))
		})
	}
}

// The null of a single column is not an empty line, which readers skip.
func TestNullOfASingleColumnInCSV(t *testing.T) {
	batch := everyType(t)
	words := batch.Column(batch.Schema().FieldIndices("word")[0])
	schema := arrow.NewSchema([]arrow.Field{{Name: "word", Type: words.DataType(), Nullable: true}}, nil)
	var out strings.Builder
	f, err := New("csv", &out, schema, 0)
	require.NoError(t, err)
	require.NoError(t, f.Write(array.NewRecordBatch(schema, []arrow.Array{words}, 3)))
	require.NoError(t, f.Close())
	require.Equal(t, "word\n\"\"\nnull\n\"\"\n", out.String())
}

// A table names some of the columns that do not fit, and counts the others.
func TestColumnsThatAreNotShown(t *testing.T) {
	for columns, want := range map[int]string{
		14:  "not shown: c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13\n",
		816: "not shown: c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, … and 802 more\n",
	} {
		var fields []arrow.Field
		for i := range columns {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: arrow.PrimitiveTypes.Int64})
		}
		var out strings.Builder
		w, err := New("table", &out, arrow.NewSchema(fields, nil), 10)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.True(t, strings.HasSuffix(out.String(), want), out.String())
	}
}
