package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// inLevels returns an expression in a number of levels.
func inLevels(levels int, before, inner, after string) string {
	return strings.Repeat(before, levels) + inner + strings.Repeat(after, levels)
}

// CASE x WHEN repeats x for each WHEN, so that nested ones double with each level.
//
// spec: expr-14
func TestNestedCaseIsBounded(t *testing.T) {
	for _, levels := range []int{30, 190} {
		_, err := ParseValue(inLevels(levels, "CASE ", "i", " WHEN 1 THEN 2 WHEN 3 THEN 4 END"))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "the expression is longer than 65536 bytes if CASE x WHEN is written as CASE WHEN x =")
	}
	_, err := Parse(inLevels(30, "CASE ", "i", " WHEN 1 THEN 2 WHEN 3 THEN 4 END") + " = 2")
	require.ErrorContains(t, err, "the filter is longer than")
	_, err = ParseValue(inLevels(8, "CASE ", "i", " WHEN 1 THEN 2 WHEN 3 THEN 4 END"))
	require.NoError(t, err)
	_, err = ParseValue("CASE i" + strings.Repeat(" WHEN 1 THEN 2", 2000) + " END")
	require.NoError(t, err)
}

// The text of a value that a condition compares is a part of the text of each condition around it.
//
// spec: expr-14
func TestNestedConditionsAreBounded(t *testing.T) {
	long := "greatest(" + strings.Repeat("i, ", 15_000) + "i)"
	for levels, refused := range map[int]bool{5: false, 60: true} {
		v, err := ParseValue(inLevels(levels, "CASE WHEN ", long, " > 1 THEN 2 ELSE 3 END"))
		require.NoError(t, err)
		_, err = v.Bind(valuesSchema())
		if refused {
			require.ErrorContains(t, err, "conditions are nested too deep: the texts of all values that they compare take more than 1.0 MiB")
		} else {
			require.NoError(t, err)
		}
	}
}

// spec: expr-17
func TestConstantsAreBounded(t *testing.T) {
	long := strings.Repeat("a", 8000)
	for _, levels := range []int{2, 3, 7} {
		_, err := evaluateOne(t, inLevels(levels, "replace(", "'a'", ", 'a', '"+long+"')")+" || s", "[]")
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "the constants of the expression take more than 16.0 MiB")
	}
	some := "replace(" + inLevels(1, "replace(", "'"+long[:200]+"'", ", 'a', '"+long[:200]+"')") + ", 'a', '" + long[:100] + "')" // 4 MB
	_, err := evaluateOne(t, "length("+some+") + i", "[]")
	require.NoError(t, err)
	_, err = evaluateOne(t, "length("+strings.Repeat(some+" || s || ", 5)+"s)", "[]")
	require.ErrorContains(t, err, "the constants of the expression take more than 16.0 MiB")
}

// The memory of nested functions whose results grow is a product, which must not overflow.
func TestSizesDoNotOverflow(t *testing.T) {
	rows := batchOf(t, memory.DefaultAllocator, valuesSchema(), `[{"s": "a"}]`)
	defer rows.Release()
	for levels := 2; levels < 190; levels++ {
		v, err := ParseValue(inLevels(levels, "replace(", "s", ", 'a', '"+strings.Repeat("a", 60_000/levels-20)+"')"))
		require.NoError(t, err)
		bound, err := v.Bind(valuesSchema())
		require.NoError(t, err)
		size := bound.Size(rows)
		require.Greater(t, size, int64(100<<20), levels)
		require.Less(t, size, int64(1)<<62, levels)
	}
}

func TestManyArgumentsTakeLittleMemory(t *testing.T) {
	const n = 3000
	rows := batchOf(t, memory.DefaultAllocator, valuesSchema(), `[{"i": 1}, {"i": 2}]`)
	defer rows.Release()
	v, err := ParseValue("greatest(" + strings.Repeat("i, ", n) + "i)")
	require.NoError(t, err)
	bound, err := v.Bind(valuesSchema())
	require.NoError(t, err)
	allocations := testing.AllocsPerRun(1, func() {
		values, err := bound.Evaluate(rows, memory.DefaultAllocator)
		require.NoError(t, err)
		values.Release()
	})
	require.Less(t, allocations, float64(100*n))
}

// spec: expr-18
func TestFiltersTakeLittleMemory(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	const rows = 3000
	for i := range rows {
		b.Field(0).(*array.Int32Builder).Append(int32(i))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("a", i))
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	long := strings.Repeat("a", 20_000)
	pass, err := bind(t, "length(replace(s, 'a', '"+long+"')) > 20003 AND n % 2 = 0", schema).Evaluate(batch, nil, nil)
	require.NoError(t, err)
	require.Len(t, pass, 1000)
	require.Equal(t, int32(1000), pass[0])
	require.Equal(t, int32(rows-2), pass[len(pass)-1])

	_, err = bind(t, "length(replace(replace(s, 'a', '"+long+"'), 'a', '"+long+"')) > 1", schema).Evaluate(batch, nil, nil)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "for one row, more than 16.0 MiB")
	require.NotEmpty(t, fault.As(err).Remedy)
}

// A policy's filter comes before the filters of clients, to which the size of a hidden value must not matter.
//
// spec: expr-18, expr-19
func TestFiltersComputeNothingForRowsThatAreDropped(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	rows := batchOf(t, memory.DefaultAllocator, schema, `[{"n": 1, "s": "a"}, {"n": 0, "s": "`+strings.Repeat("a", 5000)+`"}, {"n": 2, "s": "b"}]`)
	defer rows.Release()
	long := "length(replace(s, 'a', '" + strings.Repeat("a", 5000) + "')) > 0"
	for _, hides := range []string{"n > 0", "n + 0 > 0"} {
		pass, err := All(bind(t, hides, schema), bind(t, long, schema)).Evaluate(rows, nil, nil)
		require.NoError(t, err, hides)
		require.Equal(t, []int32{0, 2}, pass)
		pass, err = All(bind(t, hides, schema), bind(t, "1 / n >= 0", schema)).Evaluate(rows, nil, nil)
		require.NoError(t, err, hides)
		require.Equal(t, []int32{0, 2}, pass)
	}
	_, err := All(bind(t, long, schema), bind(t, "n + 0 > 0", schema)).Evaluate(rows, nil, nil)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))

	some := []int32{0, 2}
	pass, err := bind(t, "1 / n >= 1", schema).Keep(rows, some, some, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{0}, pass)
	pass, err = bind(t, "n >= 0", schema).Keep(rows, []int32{1}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{1}, pass)
	pass, err = (*Filter)(nil).Keep(rows, []int32{1, 2}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2}, pass)
}

// In SQL engines, 3 * 0.1 is the decimal 0.3. As doubles, it is not.
//
// spec: expr-2, expr-15
func TestArithmeticOfDecimalsIsRefused(t *testing.T) {
	for _, text := range []string{
		"i * 0.1", "0.1 * l", "g * (0.1 + 0.2)", "g * (1 - 0.9)", "i * CASE WHEN i > 0 THEN 0.1 ELSE 0.2 END", "i * CASE WHEN i > 0 THEN 0.1 END", "coalesce(i, 0.1) * 3",
		"i * greatest(0.1, 0.2)", "i * -(0.1)", "i * abs(-0.1)", "nullif(0.1, 0.2) * i", "i * -CASE WHEN i > 0 THEN 0.1 ELSE 2 END", "(i + 1) / 0.5",
	} {
		_, err := evaluateOne(t, text, `[{"i": 3}]`)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.ErrorContains(t, err, "arithmetic of decimals is not supported: write ", text)
	}
	for text, want := range map[string]string{
		"i * 1e-1": "0.30000000000000004", "i * CAST(0.1 AS double)": "0.30000000000000004", "g * 0.5": "0.75", "g * coalesce(g, 0.1)": "2.25", "CASE WHEN i > 0 THEN 0.1 ELSE 0.2 END": "0.1",
		"i * CASE WHEN i > 0 THEN g ELSE 0.1 END": "4.5", "i * CASE WHEN i > 0 THEN 1e-1 ELSE 0.1 END": "0.30000000000000004", "i * sqrt(0.25)": "1.5",
	} {
		got, err := evaluateOne(t, text, `[{"i": 3, "g": 1.5}]`)
		require.NoError(t, err, text)
		require.Equal(t, []string{want}, got, text)
	}
}

// A literal of a float is compared with doubles as the double that it equals.
//
// spec: expr-2
func TestFloatsOfLiteralsCompareExactly(t *testing.T) {
	for text, want := range map[string]string{
		"g = CAST(0.1 AS float)": "false", "g < CAST(0.1 AS float)": "true", "CAST(f AS double) = CAST(0.1 AS float)": "true", "f = CAST(0.1 AS float)": "true",
	} {
		got, err := evaluateOne(t, text, `[{"g": 0.1, "f": 0.1}]`)
		require.NoError(t, err, text)
		require.Equal(t, []string{want}, got, text)
	}
}

// Errors have values of rows, and texts of clients.
func TestErrorsArePrintable(t *testing.T) {
	for text, want := range map[string]string{
		"CAST(s || '\x1b[31m' AS int)":                         `'\x1b[31m'`,
		"left(s || '\x07', i)":                                 `left('\a', -1)`,
		"CAST(s || '" + strings.Repeat("a", 39) + "é' AS int)": "'" + strings.Repeat("a", 39) + "…'",
		"CAST(s || '" + strings.Repeat("é", 15) + "' AS int)":  "é…: 'é",
	} {
		_, err := evaluateOne(t, text, `[{"s": "", "i": -1}]`)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\x1b")
	}
	_, err := evaluateOne(t, "-l", `[{"l": -9223372036854775808}]`)
	require.ErrorContains(t, err, "0 - -9223372036854775808 is not within long")
	_, err = evaluateOne(t, "g + 1e400", `[{"g": 1}]`)
	require.ErrorContains(t, err, "the number 1E+400 is not within double")
}

// Texts of other engines are refused with what to write instead.
//
// spec: expr-15
func TestErrorsSayWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"m * 2":                             "decimal(10, 2) * int is not defined: cast decimals to double, as in CAST(x AS double)",
		"d - d":                             "the days from b to a are datediff('day', b, a)",
		"d + l":                             "a date is moved by an int",
		"p - p":                             "use unix_seconds",
		"b + 1":                             "cast conditions to int",
		"s + 'x'":                           "texts are joined by ||",
		"CASE WHEN s ILIKE 'a%' THEN 1 END": "write lower(x) LIKE 'text%'",
		"i // 7":                            "the whole part of a quotient is floor(x / y)",
		"s[1]":                              "an item of a list is element_at(x, 1)",
		"d + INTERVAL 7":                    "days are added as in x + 7",
		"extract(hour FROM p)":              "a part of a date is called by its name, as in hour(x)",
		"sum(i) OVER ()":                    "windows are not supported: write them in SQL for penstock stage --sql",
		"i::double":                         "a cast is written CAST(x AS type)",
	} {
		v, err := ParseValue(text)
		if err == nil {
			_, err = v.Bind(valuesSchema())
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "did you mean", text)
	}
}

// An error lists the first hundred faults alone: a text has room for thousands.
func TestManyUnknownNames(t *testing.T) {
	t.Parallel()
	const names = 3000
	var terms []string
	for i := range names {
		terms = append(terms, fmt.Sprintf("item%d = 1", i))
	}
	parsed, err := Parse(strings.Join(terms, " OR "))
	require.NoError(t, err)
	_, err = parsed.Bind(arrow.NewSchema([]arrow.Field{{Name: "item", Type: arrow.PrimitiveTypes.Int64}}, nil))
	faults := fault.As(err).Faults
	require.Len(t, faults, maxFaults+1)
	require.Equal(t, "item", faults[maxFaults-1].Nearest)
	require.Equal(t, fault.Field{Message: "further faults are not listed"}, faults[maxFaults])

	_, err = Parse(strings.Repeat("1 OR ", names) + "1")
	require.Len(t, fault.As(err).Faults, maxFaults+1)
	for _, text := range []string{strings.Repeat("nothing(item) = 1 OR ", names) + "item = 1", strings.Repeat("(item = 'a') = (item = 'b') OR ", names/2) + "item = 1"} {
		parsed, err = Parse(text)
		require.NoError(t, err)
		_, err = parsed.Bind(arrow.NewSchema([]arrow.Field{{Name: "item", Type: arrow.PrimitiveTypes.Int64}}, nil))
		require.Len(t, fault.As(err).Faults, maxFaults+1)
	}
}
