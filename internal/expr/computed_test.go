package expr

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// spec: expr-1
func TestParseValuePrintsCanonicalText(t *testing.T) {
	for text, want := range map[string]string{
		"a+b*c":                          "a + b * c",
		"(a+b)*c":                        "(a + b) * c",
		"a-(b-c)":                        "a - (b - c)",
		"(a-b)-c":                        "a - b - c",
		"a/(b/c)":                        "a / (b / c)",
		"a % b / 2":                      "a % b / 2",
		"-a":                             "-a",
		"- -a":                           "- -a",
		"+a":                             "a",
		"-(a+b)":                         "-(a + b)",
		"-a * b":                         "-a * b",
		"a - -5":                         "a - -5",
		"a --5":                          "a - -5",
		"a*-b":                           "a * -b",
		"- - 5 + a":                      "5 + a",
		"a * 1e3":                        "a * 1E+3",
		"a * 1000":                       "a * 1000",
		"a * 1.5E0":                      "a * 1.5E+0",
		"Cast(a as INTEGER)":             "CAST(a AS int)",
		"try_cast(a+1 as decimal(10,2))": "TRY_CAST(a + 1 AS decimal(10, 2))",
		"CAST(a as bigint) / 2":          "CAST(a AS long) / 2",
		"Lower(a)":                       "lower(a)",
		"f(a, 'x', [1, 2.5, -3], date '2026-10-01', NULL)": "f(a, 'x', [1, 2.5, -3], DATE '2026-10-01', NULL)",
		"f(a) + g(f(b), a)":  "f(a) + g(f(b), a)",
		`"a b" + "end"`:      `"a b" + "end"`,
		"end + 1":            `"end" + 1`,
		"f(a > 1 and not b)": "f(a > 1 AND NOT b)",
		"(a = 1) = (b or c)": "(a = 1) = (b OR c)",
		"a + 1 > b * 2":      "a + 1 > b * 2",
		"a = 1e3":            "a = 1000",
		"f() + a":            "f() + a",
	} {
		v, err := ParseValue(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v.String(), text)
		again, err := ParseValue(want)
		require.NoError(t, err, want)
		require.Equal(t, want, again.String())
		require.Equal(t, v.Columns(), again.Columns())
	}
}

// spec: expr-14
func TestParseValueFaults(t *testing.T) {
	nested := strings.Repeat("f(", maxDepth+1) + "a" + strings.Repeat(")", maxDepth+1)
	for text, want := range map[string]string{
		"":                                      "the expression is empty",
		"a +":                                   "at position 4: the expression ends too early: expected a column or another value",
		"a + * b":                               "unexpected *",
		"1 + 2":                                 "an expression needs a column",
		"f(a":                                   "a closing parenthesis",
		"f(a,":                                  "the expression ends too early",
		"CAST(a)":                               "unexpected )",
		"CAST(a AS)":                            "expected a type",
		"CAST(a AS lnog)":                       "there is no type lnog",
		"CAST(a AS decimal(10))":                "a precision and a scale",
		"CAST(a AS decimal(99, 2))":             "the precision is 1 to 38",
		"CAST(a AS int(3))":                     "takes no numbers",
		"f(a, [])":                              "expected a literal",
		"f(a, [b])":                             "expected a literal",
		"a[1]":                                  "unexpected [",
		"a + 'x":                                "not closed",
		"a ^ 2":                                 "power(x, n)",
		nested:                                  "nested more than 200 deep",
		"a" + strings.Repeat("+a", maxDepth+1):  "more than 200 levels",
		"a" + strings.Repeat(" * -a", maxDepth): "more than 200 levels",
		strings.Repeat("-", 300) + "a":          "more than 200 signs",
		"'" + strings.Repeat("x", MaxText) + "' = a": "longer than",
		"a + \xff": "UTF-8",
	} {
		_, err := ParseValue(text)
		require.ErrorContains(t, err, want, shorten(text))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

func TestSubstitute(t *testing.T) {
	for _, one := range [][4]string{
		{"a * 2", "a", "b + 1", "(b + 1) * 2"},
		{"CASE WHEN a > 1 THEN a ELSE -a END", "a", "b / 2", "CASE WHEN b / 2 > 1 THEN b / 2 ELSE -(b / 2) END"},
		{"CASE WHEN a THEN 1 END", "a", "b = 1 OR c", "CASE WHEN b = 1 OR c THEN 1 END"},
		{"a", "a", "b + 1", "b + 1"},
		{"c - a", "a", "b - 1", "c - (b - 1)"},
		{"a = 1 AND b", "a", "b % 2", "b % 2 = 1 AND b"},
		{"NOT a", "a", "NOT b", "b"},
		{"a AND c", "a", "b AND d", "b AND d AND c"},
		{"f(a, x.a)", "a", "b", "f(b, x.a)"},
		{"-a", "a", "-b", "- -b"},
		{"CAST(a AS int) BETWEEN a AND 3", "a", "b + b", "CAST(b + b AS int) BETWEEN b + b AND 3"},
		{"a IS NULL OR a IN (1, 2) OR a LIKE 'x%'", "a", "lower(b)", "lower(b) IS NULL OR lower(b) IN (1, 2) OR lower(b) LIKE 'x%'"},
	} {
		v, err := ParseValue(one[0])
		require.NoError(t, err)
		with, err := ParseValue(one[2])
		require.NoError(t, err)
		got, err := v.Substitute(one[1], with)
		require.NoError(t, err)
		require.Equal(t, one[3], got.String())
		again, err := ParseValue(got.String())
		require.NoError(t, err)
		require.Equal(t, got.String(), again.String())
	}
}

// TestSubstituteIsBounded doubles an expression until it is too long.
func TestSubstituteIsBounded(t *testing.T) {
	double, err := ParseValue("a + a")
	require.NoError(t, err)
	grown := double
	for range 100 {
		if grown, err = double.Substitute("a", grown); err != nil {
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			return
		}
	}
	require.Fail(t, "no limit")
}

// valuesSchema has columns of numbers and texts.
func valuesSchema() *arrow.Schema {
	field := func(name string, dt arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: dt, Nullable: true}
	}
	return arrow.NewSchema([]arrow.Field{
		field("i", arrow.PrimitiveTypes.Int32), field("l", arrow.PrimitiveTypes.Int64),
		field("f", arrow.PrimitiveTypes.Float32), field("g", arrow.PrimitiveTypes.Float64),
		field("b", arrow.FixedWidthTypes.Boolean), field("s", arrow.BinaryTypes.String),
		field("d", arrow.FixedWidthTypes.Date32), field("p", &arrow.TimestampType{Unit: arrow.Microsecond}),
		field("m", &arrow.Decimal128Type{Precision: 10, Scale: 2}),
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
}

// evaluateOne evaluates an expression on rows of JSON, and returns the values as text.
func evaluateOne(t *testing.T, text, json string) ([]string, error) {
	t.Helper()
	rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, valuesSchema(), strings.NewReader(json))
	require.NoError(t, err)
	defer rows.Release()
	v, err := ParseValue(text)
	require.NoError(t, err)
	bound, err := v.Bind(valuesSchema())
	if err != nil {
		return nil, err
	}
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	values, err := bound.Evaluate(rows, mem)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	require.Equal(t, int(rows.NumRows()), values.Len())
	require.True(t, arrow.TypeEqual(bound.Type(), values.DataType()), "%s %s", bound.Type(), values.DataType())
	require.LessOrEqual(t, int64(mem.CurrentAlloc()), bound.Size(rows))
	texts := make([]string, values.Len())
	for i := range texts {
		texts[i] = strings.Clone(values.ValueStr(i))
		if values.IsNull(i) {
			texts[i] = "null"
		}
		require.True(t, bound.Nullable() || values.IsValid(i))
	}
	return texts, nil
}

// spec: expr-4, expr-7, expr-8, expr-11, expr-16
func TestEvaluateValues(t *testing.T) {
	for _, one := range []struct{ text, rows, want string }{
		{"i + 1", `[{"i":1},{"i":-5},{}]`, "2 -4 null"},
		{"l * 2 - i", `[{"i":1,"l":10},{"l":1},{"i":1}]`, "19 null null"},
		{"i / 2", `[{"i":1},{"i":-5}]`, "0.5 -2.5"},
		{"l % 3", `[{"l":7},{"l":-7}]`, "1 -1"},
		{"g % 0.75e0", `[{"g":2},{"g":-2}]`, "0.5 -0.5"},
		{"f + f", `[{"f":0.1}]`, "0.2"},
		{"f + 1", `[{"f":0.5}]`, "1.5"},
		{"-i", `[{"i":5},{}]`, "-5 null"},
		{"-g", `[{"g":0}]`, "-0"},
		{"g * 0.5", `[{"g":3}]`, "1.5"},
		{"i * (60 * 60)", `[{"i":2}]`, "7200"},
		{"l / i", `[{"l":1,"i":null},{"l":null,"i":0},{"l":9,"i":2}]`, "null null 4.5"},
		{"CAST(i AS long) + 2147483647", `[{"i":2147483647}]`, "4294967294"},
		{"CAST(s AS int)", `[{"s":" -12 "},{}]`, "-12 null"},
		{"TRY_CAST(s AS int)", `[{"s":"x"},{"s":"3"},{"s":""},{"s":"99999999999"},{"s":"12a"}]`, "null 3 null null null"},
		{"CAST(s AS double)", `[{"s":"1.5e1"},{"s":"inf"}]`, "15 +Inf"},
		{"CAST(i AS string)", `[{"i":-12},{},{"i":0}]`, "-12 null 0"},
		{"CAST(b AS int)", `[{"b":true},{"b":false},{}]`, "1 0 null"},
		{"CAST(i AS boolean)", `[{"i":2},{"i":0},{}]`, "true false null"},
		{"CAST(d AS timestamp)", `[{"d":"1969-12-31"}]`, "1969-12-31T00:00:00"},
		{"CAST(p AS date)", `[{"p":"1969-12-31 23:00:00"},{"p":"1970-01-01 00:00:00"}]`, "1969-12-31 1970-01-01"},
		{"CAST(m AS double)", `[{"m":"0.07"}]`, "0.07"},
		{"CAST(g AS int)", `[{"g":-2}]`, "-2"},
		{"CAST(NULL AS int) + n", `[{"n":1}]`, "null"},
		{"n", `[{"n":1},{"n":2}]`, "1 2"},
		{"i + l", `[]`, ""},
		{"d + 1", `[{"d":"2020-02-28"},{}]`, "2020-02-29 null"},
		{"d - i", `[{"d":"1970-01-01","i":1}]`, "1969-12-31"},
		{"i > 1", `[{"i":1},{"i":2},{}]`, "false true null"},
		{"i > 1 AND l > 1", `[{"i":1},{"i":2},{"l":1},{"i":2,"l":2},{"l":2}]`, "false null false true null"},
		{"i > 1 OR l > 1", `[{"i":1},{"i":2},{"l":1},{"i":1,"l":1},{"l":2}]`, "null true null false true"},
		{"NOT b", `[{"b":true},{"b":false},{}]`, "false true null"},
		{"i IS NULL", `[{"i":1},{}]`, "false true"},
		{"s LIKE 'a%'", `[{"s":"ab"},{"s":"b"},{}]`, "true false null"},
		{"i IN (1, 2)", `[{"i":1},{"i":3},{}]`, "true false null"},
		{"i NOT BETWEEN 1 AND l", `[{"i":1,"l":3},{"i":0},{"i":4},{"i":4,"l":3}]`, "false true null true"},
		{"(((((((i > 1) = b) = b) = b) = b) = b) = b) = b", `[{"i":1,"b":true},{"i":2,"b":true},{"i":2}]`, "false true null"},
		{"(b AND i > 1) = b", `[{"i":1,"b":false},{"i":2,"b":true},{"i":2}]`, "true true null"},
		{"(i > 1) = b", `[{"i":1,"b":false},{"i":2,"b":false},{"i":2}]`, "true false null"},
		{"i < 1.5", `[{"i":1},{"i":2}]`, "true false"},
		{"CASE WHEN i > 0 THEN l / i END", `[{"i":2,"l":3},{"i":0,"l":3},{"l":3}]`, "1.5 null null"},
		{"CASE WHEN i > 0 THEN l / i ELSE 0 END", `[{"i":2,"l":3},{"i":0,"l":3},{"l":3}]`, "1.5 0 0"},
		{"CASE WHEN i <> 0 AND l / i > 1 THEN 'big' WHEN i = 0 THEN s ELSE 'small' END", `[{"i":2,"l":3},{"i":0,"s":"zero"},{"i":0},{"l":3}]`, "big zero null small"},
		{"CASE i WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", `[{"i":1},{"i":2},{"i":3},{}]`, "one two null null"},
		{"CASE WHEN b THEN i ELSE l END", `[{"b":true,"i":1},{"b":false,"l":2},{"l":9223372036854775807}]`, "1 2 9223372036854775807"},
		{"CASE WHEN b THEN NULL ELSE i > 1 END", `[{"b":true,"i":1},{"b":false,"i":2},{"i":1}]`, "null true false"},
		{"CASE WHEN b THEN d ELSE DATE '1969-12-31' END", `[{"b":true,"d":"2020-02-29"},{"b":false}]`, "2020-02-29 1969-12-31"},
		{"CASE WHEN b THEN m ELSE NULL END", `[{"b":true,"m":"0.07"},{"b":false}]`, "0.07 null"},
		{"CASE WHEN i > 0 THEN CASE WHEN l / i > 1 THEN 1 ELSE 2 END ELSE 3 END", `[{"i":2,"l":3},{"i":2,"l":1},{"i":0,"l":3}]`, "1 2 3"},
		{"CASE WHEN i > 0 THEN ln(i) ELSE 0 END", `[{"i":1},{"i":0},{}]`, "0 0 0"},
		{"coalesce(i, 10 / l)", `[{"i":1,"l":0},{"l":5},{}]`, "1 2 null"},
		{"s || '-' || CAST(i AS string)", `[{"s":"a","i":1},{"s":"b"},{"i":2}]`, "a-1 null null"},
		{"l / nullif(i, 0)", `[{"i":2,"l":3},{"i":0,"l":3}]`, "1.5 null"},
	} {
		got, err := evaluateOne(t, one.text, one.rows)
		require.NoError(t, err, one.text)
		require.Equal(t, one.want, strings.ReplaceAll(strings.Join(got, " "), " 23:", "T23:"), one.text)
	}
}

// spec: expr-5
func TestEvaluateFailsForValues(t *testing.T) {
	for _, one := range []struct{ text, rows, want string }{
		{"i + 1", `[{"i":0},{"i":2147483647}]`, "evaluate i + 1: the result of 2147483647 + 1 is not within int; cast an operand to long"},
		{"i * i", `[{"i":65536}]`, "not within int"},
		{"l - 1", `[{"l":-9223372036854775808}]`, "not within long"},
		{"l * l", `[{"l":4294967296}]`, "not within long"},
		{"-l", `[{"l":-9223372036854775808}]`, "not within long"},
		{"l % -1", `[{"l":-9223372036854775808}]`, "not within long"},
		{"1 + i / l", `[{"i":1,"l":0}]`, "evaluate i / l: 1 / 0 is a division by zero; make a divisor of 0 null with nullif(divisor, 0)"},
		{"d + i", `[{"d":"9999-12-31","i":1}]`, "not within the years 1 to 9999"},
		{"g / 0", `[{"g":1}]`, "division by zero"},
		{"l % i", `[{"i":0,"l":3}]`, "3 % 0 is a division by zero"},
		{"CAST(s AS int)", `[{"s":"x"}]`, "'x' cannot be cast from string to int; TRY_CAST makes such values null"},
		{"TRY_CAST(s AS int)", `[{"s":"1.5"}]`, "SQL engines disagree"},
		{"CAST(g AS int)", `[{"g":1.5}]`, "SQL engines disagree"},
		{"CAST(l AS int)", `[{"l":2147483648}]`, "cannot be cast from long to int"},
		{"CAST(g AS float)", `[{"g":1e300}]`, "SQL engines disagree"},
		{"CASE WHEN i >= 0 THEN l / i END", `[{"i":0,"l":3}]`, "evaluate l / i: 3 / 0 is a division by zero"},
		{"l / i > 1", `[{"i":0,"l":3}]`, "3 / 0 is a division by zero"},
	} {
		_, err := evaluateOne(t, one.text, one.rows)
		require.ErrorContains(t, err, one.want, one.text)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

// spec: expr-15
func TestBindValueFaults(t *testing.T) {
	for text, want := range map[string]string{
		"ii + 1":                   `at position 1: unknown column "ii" (did you mean "i"?)`,
		"i + s":                    "at position 1: int + string is not defined",
		"-s":                       "-string is not defined",
		"i * 1.5":                  "at position 5: 1.5 is a decimal, and arithmetic of decimals is not supported: write 1.5E+0 for a double",
		"i + NULL":                 "write CAST(NULL AS type)",
		"CAST(g AS string)":        "at position 1: double cannot be cast to string",
		"no_such_function(i)":      "at position 1: there is no function no_such_function",
		"i + 99999999999999999999": "write 9.9999999999999999999E+19 for a double",
		"i % (1 - 1) + 1 / 0":      "at position 15: evaluate 1 / 0: 1 / 0 is a division by zero",
		"x.y + 1":                  "unknown column",
	} {
		v, err := ParseValue(text)
		require.NoError(t, err, text)
		_, err = v.Bind(valuesSchema())
		require.ErrorContains(t, err, want, text)
	}
}

// TestFiltersUseValues filters by values that are not columns.
//
// spec: expr-12
func TestFiltersUseValues(t *testing.T) {
	rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, valuesSchema(), strings.NewReader(
		`[{"i":1,"l":10,"n":0,"s":"5"},{"i":2,"l":0,"n":1,"s":"x"},{"n":2},{"i":4,"l":8,"n":3,"s":"7"}]`))
	require.NoError(t, err)
	defer rows.Release()
	for text, want := range map[string][]int32{
		"l / i > 1.5":                         {0, 3},
		"l / i BETWEEN 2 AND 2":               {3},
		"NOT l / i > 1.5":                     {1},
		"i + 1 IS NULL":                       {2},
		"i + 1 IN (2, 5, 99)":                 {0, 3},
		"i < l - i":                           {0},
		"i > 60 / 30":                         {3},
		"l <> 0 AND i / l < 0.2":              {0},
		"i / l < 0.2 AND l <> 0":              {0},
		"l = 0 OR i / l < 0.2":                {0, 1},
		"TRY_CAST(s AS int) >= 5":             {0, 3},
		"CAST(i AS boolean)":                  {0, 1, 3},
		"CAST(i AS string) LIKE '%4'":         {3},
		"s <> 'x' AND CAST(s AS int) + 1 > 6": {3},
	} {
		e, err := Parse(text)
		require.NoError(t, err, text)
		f, err := e.Bind(valuesSchema())
		require.NoError(t, err, text)
		got, err := f.Evaluate(rows, nil, nil)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, f.String(), bind(t, f.String(), valuesSchema()).String())
		require.True(t, f.MayMatch(func(string) (Range, bool) { return Unbounded(1), true }))
		require.Subset(t, e.Columns(), f.Columns())
	}
	f := bind(t, "i / l > 1", valuesSchema())
	_, err = f.Evaluate(rows, nil, nil)
	require.ErrorContains(t, err, "2 / 0 is a division by zero")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// TestColumnsWithoutValidityBits evaluates a function on a column that has no bitmap of nulls.
func TestColumnsWithoutValidityBits(t *testing.T) {
	values := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes([]int64{1, 2, 3}))
	data := array.NewData(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{nil, values}, nil, 0, 0)
	defer data.Release()
	column := array.MakeFromData(data)
	defer column.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	rows := array.NewRecordBatch(schema, []arrow.Array{column}, 3)
	defer rows.Release()
	for _, text := range []string{"n", "coalesce(n, 0)", "CASE WHEN n > 0 THEN abs(n) END"} {
		v, err := ParseValue(text)
		require.NoError(t, err)
		bound, err := v.Bind(schema)
		require.NoError(t, err)
		got, err := bound.Evaluate(rows, batch.Default())
		require.NoError(t, err)
		require.Zero(t, got.NullN(), text)
		require.Equal(t, int64(3), got.(*array.Int64).Value(2))
		got.Release()
	}
	passing, err := bind(t, "coalesce(n, 0) > 1", schema).Evaluate(rows, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2}, passing)
}

// spec: expr-13
func TestOnlyComparisonsOfColumnsPrune(t *testing.T) {
	ranges := func(column string) (Range, bool) {
		return Range{Lower: Int(0), Upper: Int(3), HasLower: true, HasUpper: true, Rows: 4}, column == "i"
	}
	for text, want := range map[string]bool{
		"i > 5": false, "i + 1 > 300": true, "i > 5 AND i + 1 > 3": false, "i > 5 OR i + 1 > 300": true, "CAST(i AS long) = 7": true,
		"i < l - 9": true, "(i > 5) = b": true, "-i IS NULL": true, "CAST(i AS string) LIKE 'x%'": true, "i + 1 IN (7, 8)": true,
	} {
		f := bind(t, text, valuesSchema())
		require.Equal(t, want, f.MayMatch(ranges), text)
		require.True(t, f.MayHold(func(column string, _ []Value) bool { return column != "" }), text)
	}
	require.True(t, bind(t, "i + 1 = 7 OR i = 3", valuesSchema()).MayHold(func(string, []Value) bool { return false }))
	require.False(t, bind(t, "i + 1 = 7 AND i = 3", valuesSchema()).MayHold(func(string, []Value) bool { return false }))
}

func TestValuesOfSlicesAndBlocks(t *testing.T) {
	const rows = 5000
	b := array.NewRecordBuilder(memory.DefaultAllocator, valuesSchema())
	defer b.Release()
	for row := range rows {
		b.Field(0).(*array.Int32Builder).AppendValues([]int32{int32(row)}, []bool{row%7 != 0})
		b.Field(1).(*array.Int64Builder).AppendValues([]int64{int64(row) * 3}, []bool{row%5 != 0})
		for i := 2; i < 10; i++ {
			b.Field(i).AppendEmptyValue()
		}
	}
	whole := b.NewRecordBatch()
	defer whole.Release()
	v, err := ParseValue("l - i * 2")
	require.NoError(t, err)
	bound, err := v.Bind(valuesSchema())
	require.NoError(t, err)
	for _, from := range []int{0, 1, 63, 64, 1000, rows - 1, rows} {
		slice := whole.NewSlice(int64(from), rows)
		mem := memory.NewCheckedAllocator(batch.Default())
		values, err := bound.Evaluate(slice, mem)
		require.NoError(t, err)
		for i := range values.Len() {
			row := from + i
			require.Equal(t, row%7 != 0 && row%5 != 0, values.IsValid(i))
			if values.IsValid(i) {
				require.Equal(t, int64(row), values.(*array.Int64).Value(i))
			}
		}
		values.Release()
		mem.AssertSize(t, 0)
		slice.Release()
	}
}
