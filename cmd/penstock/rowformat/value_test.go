package rowformat

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

func TestValuesAsJSONAndText(t *testing.T) {
	of := func(dt arrow.DataType, text string) arrow.Array {
		a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(text))
		require.NoError(t, err)
		return a
	}
	floats := array.NewFloat64Builder(memory.DefaultAllocator)
	floats.AppendValues([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 1e21, 0.1}, nil)
	structs := arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: `"b"`, Type: arrow.BinaryTypes.String, Nullable: true})
	for name, c := range map[string]struct {
		column arrow.Array
		json   []string
		text   []string // nil: as in JSON
	}{
		"int64":        {of(arrow.PrimitiveTypes.Int64, `[9223372036854775807, null]`), []string{"9223372036854775807", "null"}, nil},
		"bool":         {of(arrow.FixedWidthTypes.Boolean, `[true, false]`), []string{"true", "false"}, nil},
		"float":        {floats.NewArray(), []string{`"NaN"`, `"Infinity"`, `"-Infinity"`, "-0", "1e+21", "0.1"}, nil},
		"float32":      {of(arrow.PrimitiveTypes.Float32, `[0.1, 16777216]`), []string{"0.1", "16777216"}, nil},
		"string":       {of(arrow.BinaryTypes.String, `["a\"<>&\n", ""]`), []string{`"a\"<>&\n"`, `""`}, []string{"a\"<>&\n", ""}},
		"binary":       {of(arrow.BinaryTypes.Binary, `["AP8="]`), []string{`"AP8="`}, []string{"AP8="}},
		"date":         {of(arrow.FixedWidthTypes.Date32, `["2026-10-01"]`), []string{`"2026-10-01"`}, []string{"2026-10-01"}},
		"time":         {of(arrow.FixedWidthTypes.Time64us, `["01:02:03.000004"]`), []string{`"01:02:03.000004"`}, []string{"01:02:03.000004"}},
		"timestamp":    {of(&arrow.TimestampType{Unit: arrow.Microsecond}, `["2026-10-01T01:02:03.5"]`), []string{`"2026-10-01T01:02:03.5"`}, []string{"2026-10-01T01:02:03.5"}},
		"with a zone":  {of(&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, `["2026-10-01T01:02:03Z"]`), []string{`"2026-10-01T01:02:03Z"`}, []string{"2026-10-01T01:02:03Z"}},
		"decimal":      {of(&arrow.Decimal128Type{Precision: 9, Scale: 3}, `["1.5", "-0.001", "0"]`), []string{`"1.500"`, `"-0.001"`, `"0.000"`}, []string{"1.500", "-0.001", "0.000"}},
		"list":         {of(arrow.ListOf(arrow.BinaryTypes.String), `[["a", null], [], null]`), []string{`["a",null]`, `[]`, "null"}, nil},
		"fixed list":   {of(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1, 2.5]]`), []string{`[1,2.5]`}, nil},
		"nested":       {of(arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int32)), `[[[1], null, [2, 3]]]`), []string{`[[1],null,[2,3]]`}, nil},
		"struct":       {of(structs, `[{"a": 1, "\"b\"": "x"}, {"a": null, "\"b\"": null}, null]`), []string{`{"a":1,"\"b\"":"x"}`, `{"a":null,"\"b\"":null}`, "null"}, nil},
		"map":          {of(arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String), `[[{"key": 1, "value": "a"}, {"key": 2, "value": null}], []]`), []string{`[[1,"a"],[2,null]]`, `[]`}, nil},
		"dictionaries": {of(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}, `["a", null, "a"]`), []string{`"a"`, "null", `"a"`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, len(c.json), c.column.Len())
			for i, want := range c.json {
				got := string(AppendJSON(nil, c.column, i))
				require.Equal(t, want, got)
				require.True(t, json.Valid([]byte(got)))
				if c.text == nil {
					require.Equal(t, want, valueText(c.column, i))
				} else {
					require.Equal(t, c.text[i], valueText(c.column, i))
				}
			}
		})
	}
}

// Decimals have exactly the digits of their scale.
func TestDecimalsHaveTheirScale(t *testing.T) {
	for _, c := range []struct {
		unscaled string
		scale    int32
		want     string
	}{
		{"12345", 2, "123.45"},
		{"-5", 2, "-0.05"},
		{"5", 0, "5"},
		{"0", 3, "0.000"},
		{"-100", 2, "-1.00"},
		{"-1", 38, "-0." + strings.Repeat("0", 37) + "1"},
		{strings.Repeat("9", 38), 0, strings.Repeat("9", 38)},
		{"-" + strings.Repeat("9", 38), 10, "-" + strings.Repeat("9", 28) + "." + strings.Repeat("9", 10)},
	} {
		unscaled, ok := new(big.Int).SetString(c.unscaled, 10)
		require.True(t, ok)
		b := array.NewDecimal128Builder(memory.DefaultAllocator, &arrow.Decimal128Type{Precision: 38, Scale: c.scale})
		b.Append(decimal128.FromBigInt(unscaled))
		require.Equal(t, c.want, valueText(b.NewArray(), 0))
	}
}

// However narrow a line is, values that must not be cut are whole, and while more than one
// column is shown, no line is longer than the limit.
func TestColumnsFitTheLine(t *testing.T) {
	widths, fixed := []int{16, 14, 6, 6, 26, 100, 7}, []bool{true, false, false, true, true, false, false}
	for limit := 1; limit <= 200; limit++ {
		out := fit(widths, fixed, limit)
		require.NotEmpty(t, out)
		if len(out) > 1 {
			require.LessOrEqual(t, total(out), limit)
		}
		for i, width := range out {
			if fixed[i] {
				require.Equal(t, widths[i], width)
			} else {
				require.LessOrEqual(t, width, min(widths[i], maxCell))
				require.GreaterOrEqual(t, width, min(widths[i], minCell))
			}
		}
	}
	require.Equal(t, []int{16, 14, 6, 6, 26, maxCell, 7}, fit(widths, fixed, 0))
}

// Rows after those that determine the widths are cut to them, and none is lost.
func TestLongTableCutsLaterRows(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	var out strings.Builder
	table := newTable(&out, schema, 60)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range 3 * layoutRows / 2 {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(strings.Repeat("x", 1+i/layoutRows*100))
	}
	batch := b.NewRecordBatch()
	require.NoError(t, table.Write(batch.NewSlice(0, 10)))
	require.Empty(t, out.String(), "widths are not known yet")
	require.NoError(t, table.Write(batch.NewSlice(10, batch.NumRows())))
	require.NoError(t, table.Close())
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 2+3*layoutRows/2)
	require.Equal(t, "  0  x", lines[2])
	require.Equal(t, "999  x", lines[2+layoutRows-1])
	require.Equal(t, "1000  …", lines[2+layoutRows], "a number is not cut")
}
