package expr

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// engineRows is the number of random rows on which each expression is compared.
const engineRows = 10_000

// engineCase is an expression over the columns a, b, c and d, whose types are named by letters.
type engineCase struct {
	types string
	text  string
	// duckdb and spark are the same expression for these engines; "": the text.
	duckdb, spark string
}

// engineType returns the type of a letter.
func engineType(letter byte) arrow.DataType {
	return map[byte]arrow.DataType{
		'i': arrow.PrimitiveTypes.Int32, 'l': arrow.PrimitiveTypes.Int64, 'f': arrow.PrimitiveTypes.Float32, 'g': arrow.PrimitiveTypes.Float64,
		'b': arrow.FixedWidthTypes.Boolean, 's': arrow.BinaryTypes.String, 'n': arrow.BinaryTypes.String, 'd': arrow.FixedWidthTypes.Date32,
		'p': &arrow.TimestampType{Unit: arrow.Microsecond}, 'm': &arrow.Decimal128Type{Precision: 12, Scale: 3}, 'w': arrow.PrimitiveTypes.Float64,
	}[letter]
}

func pickOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// appendRandom appends a random value of a letter's type.
func appendRandom(r *rand.Rand, letter byte, to array.Builder) {
	if r.IntN(8) == 0 {
		to.AppendNull()
		return
	}
	common := r.IntN(3) > 0
	switch to := to.(type) {
	case *array.Int32Builder:
		if common {
			to.Append(int32(r.IntN(20) - 10))
		} else {
			to.Append(pickOf(r, 0, -1, math.MaxInt32, math.MinInt32, math.MaxInt32-1, 65536, int32(r.Uint32())))
		}
	case *array.Int64Builder:
		if common {
			to.Append(int64(r.IntN(20) - 10))
		} else {
			to.Append(pickOf(r, 0, -1, math.MaxInt64, math.MinInt64, math.MaxInt32+1, 1<<53+1, int64(r.Uint64())))
		}
	case *array.Float32Builder:
		to.Append(pickOf(r, float32(r.IntN(20)-10)/4, math.Float32frombits(r.Uint32()), 0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, r.Float32(), r.Float32()))
	case *array.Float64Builder:
		if letter == 'w' {
			to.Append(pickOf(r, float64(r.IntN(20)-10), float64(r.Uint32()), -float64(r.Uint64()), 1<<31, -1<<31, 1<<63, -1<<63, math.NaN(), math.Inf(1)))
			return
		}
		to.Append(pickOf(r, float64(r.IntN(20)-10)/4, math.Float64frombits(r.Uint64()), 0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, r.Float64(), r.Float64()))
	case *array.BooleanBuilder:
		to.Append(r.IntN(2) == 0)
	case *array.StringBuilder:
		if letter == 'n' {
			to.Append(pickOf(r, "12", " -7", "+5 ", "007", "x", "", " ", "1.5", "-1.5e3", "1e2", "99999999999", "9223372036854775807", "9223372036854775808", "inf", "-Infinity", "NaN", ".5", "5.", "1e400",
				"true", "FALSE", "t", "no", "12a", "--1", "0x1F", "1_000", "2020-02-29", "2021-02-29", "2020-1-1", "1969-12-31 23:59:59", "2020-01-01T10:00:00.123456", "2020-01-01 10:00", "0001-01-01", "9999-12-31", "epoch", "é"))
			return
		}
		to.Append(pickOf(r, "", "a", "ab", "abc", "b", "A", "é", "日本", "a%b", "\U0010ffff", " ", "ß"))
	case *array.Date32Builder:
		to.Append(pickOf(r, arrow.Date32(r.IntN(40_000)-20_000), 0, -1, 18_321, -719_162, 2_932_896))
	case *array.TimestampBuilder:
		to.Append(pickOf(r, arrow.Timestamp(r.Int64N(4e15)-2e15), 0, -1, 1, 86_399_999_999, -86_400_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999))
	case *array.Decimal128Builder:
		to.Append(decimal128.FromI64(pickOf(r, r.Int64N(20_000)-10_000, 0, 1, -1, 1005, -1005, 500, 999_999_999_999, -999_999_999_999)))
	default:
		to.AppendNull()
	}
}

func engineCases() []engineCase {
	var cases []engineCase
	for _, op := range []string{"+", "-", "*", "/", "%"} {
		for _, types := range []string{"ii", "il", "ll", "li", "gg", "ig", "gl", "fg", "ff", "fi", "lf"} {
			c := engineCase{types: types, text: "a " + op + " b"}
			if mixed := types != "ff" && strings.Contains(types, "f"); mixed || op == "/" && strings.Contains(types, "f") {
				c.duckdb = "CAST(a AS DOUBLE) " + op + " CAST(b AS DOUBLE)"
			}
			cases = append(cases, c)
		}
	}
	for _, types := range []string{"i", "l", "f", "g"} {
		cases = append(cases, engineCase{types: types, text: "-a"}, engineCase{types: types, text: "a + 1 - 3 * a"})
	}
	cases[len(cases)-3].duckdb = "CAST(a AS DOUBLE) + 1 - 3 * CAST(a AS DOUBLE)" // of float
	for _, types := range []string{"ii", "ll", "il", "ff", "gg", "fg", "ss", "bb", "dd", "pp", "mm"} {
		for _, op := range []string{"=", "<>", "<", "<=", ">", ">="} {
			if types != "il" && types != "fg" || op == "<" {
				cases = append(cases, engineCase{types: types, text: "a " + op + " b"})
			}
		}
	}
	for _, one := range []string{
		"i:a > 1", "g:a >= 0.5", "s:a = 'ab'", "s:a LIKE 'a%'", "s:a LIKE '_'", "s:a NOT LIKE '%b%'", "i:a IN (1, 2, -3)", "i:a NOT IN (1, 2)", "ii:a BETWEEN 0 AND b", "ii:a NOT BETWEEN b AND 3",
		"i:a IS NULL", "g:a IS NOT NULL", "bb:a AND b", "bb:a OR b", "bb:NOT a OR b", "bbb:(a AND b) OR NOT c", "bb:(a OR b) IS NULL", "bb:NOT (a AND NOT b)",
		"ii:a + b > 3", "il:a * 2 = b", "bii:CASE WHEN a THEN b ELSE c END", "bil:CASE WHEN a THEN b ELSE c END", "ii:CASE WHEN b <> 0 THEN a / b END", "ii:CASE a WHEN 1 THEN 10 WHEN b THEN 20 ELSE 30 END",
		"bss:CASE WHEN a THEN b WHEN b = c THEN c || 'x' END", "bdp:CASE WHEN a THEN b END", "bdp:CASE WHEN a THEN c END", "bmm:CASE WHEN a THEN b ELSE c END", "bgi:CASE WHEN a THEN b ELSE c END",
		"bbb:CASE WHEN a THEN b WHEN b THEN NULL ELSE c END", "ss:a || b", "ss:a || '-' || b", "ii:a / nullif(b, 0)", "ii:coalesce(a, b * 2)",
		"i:CAST(a AS bigint)", "i:CAST(a AS float)", "i:CAST(a AS double)", "i:CAST(a AS boolean)", "i:CAST(a AS decimal(14, 2))", "i:CAST(a AS decimal(5, 2))", "l:CAST(a AS int)", "l:TRY_CAST(a AS int)", "l:CAST(a AS float)", "l:CAST(a AS double)",
		"l:CAST(a AS boolean)", "f:CAST(a AS double)", "g:CAST(a AS float)", "w:CAST(a AS int)", "w:TRY_CAST(a AS int)", "w:CAST(a AS bigint)", "w:TRY_CAST(a AS bigint)", "f:CAST(a AS int)", "b:CAST(a AS int)", "b:CAST(a AS bigint)", "b:CAST(a AS double)",
		"n:CAST(a AS int)", "n:TRY_CAST(a AS int)", "n:TRY_CAST(a AS bigint)", "n:TRY_CAST(a AS double)", "n:TRY_CAST(a AS float)", "n:TRY_CAST(a AS boolean)", "n:TRY_CAST(a AS date)", "n:CAST(a AS date)", "m:CAST(a AS double)", "m:CAST(a AS float)", "m:CAST(a AS int)", "m:TRY_CAST(a AS int)",
		"m:CAST(a AS decimal(12, 1))", "m:CAST(a AS decimal(4, 2))", "m:TRY_CAST(a AS decimal(4, 2))", "m:CAST(a AS decimal(20, 5))", "p:CAST(a AS date)",
	} {
		types, text, _ := strings.Cut(one, ":")
		cases = append(cases, engineCase{types: types, text: text})
	}
	for _, text := range []string{"a + b", "a - b", "b + a", "a + 1"} {
		cases = append(cases, engineCase{types: "di", text: text})
	}
	for _, types := range []string{"i", "l", "b", "d", "p", "m"} {
		cases = append(cases, engineCase{types: types, text: "CAST(a AS varchar)", spark: "CAST(a AS string)"})
	}
	return append(cases,
		engineCase{types: "d", text: "CAST(a AS timestamp)", spark: "CAST(a AS timestamp_ntz)"},
		engineCase{types: "n", text: "TRY_CAST(a AS timestamp)", spark: "TRY_CAST(a AS timestamp_ntz)"},
	)
}

// engineInput returns random rows for a case.
func engineInput(c engineCase, rows int) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(7, uint64(len(c.text))))
	fields := make([]arrow.Field, len(c.types))
	for i := range fields {
		fields[i] = arrow.Field{Name: string(rune('a' + i)), Type: engineType(c.types[i]), Nullable: true}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for range rows {
		for i := range fields {
			appendRandom(r, c.types[i], b.Field(i))
		}
	}
	return b.NewRecordBatch()
}

// TestDuckDBComputesTheSameValues compares operators, conditions, CASE and casts with DuckDB.
//
// spec: expr-2, expr-3, expr-4, expr-6, expr-7, expr-8, expr-9, expr-10
func TestDuckDBComputesTheSameValues(t *testing.T) {
	compareWithEngine(t, "duckdb", "PENSTOCK_PYTHON", func(c engineCase) string { return c.duckdb })
}

// TestSparkComputesTheSameValues compares them with Spark.
//
// spec: expr-2, expr-3
func TestSparkComputesTheSameValues(t *testing.T) {
	compareWithEngine(t, "spark", "PENSTOCK_SPARK_PYTHON", func(c engineCase) string { return c.spark })
}

func compareWithEngine(t *testing.T, engine, variable string, sql func(engineCase) string) {
	t.Helper()
	t.Parallel()
	if engine == "spark" && os.Getenv("PENSTOCK_SPARK_TESTS") == "" {
		t.Skip("Spark takes minutes: make test-spark runs this test")
	}
	python := os.Getenv(variable)
	if _, err := os.Stat(python); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must set %s", variable)
		t.Skipf("%s names no Python to run %s with", variable, engine)
	}
	dir := t.TempDir()
	var listed []map[string]string
	var results []arrow.Array
	var inputs []arrow.RecordBatch
	cases := engineCases()
	for i, c := range cases {
		rows, values := successful(t, c)
		defer values.Release()
		defer rows.Release()
		text := sql(c)
		if text == "" {
			text = c.text
		}
		name := strconv.Itoa(i)
		listed = append(listed, map[string]string{"input": name + ".in", "like": name + ".like", "output": name + ".out", "sql": text})
		writeRows(t, filepath.Join(dir, name+".in"), rows)
		like := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "r", Type: values.DataType(), Nullable: true}}, nil), []arrow.Array{values}, int64(values.Len()))
		writeRows(t, filepath.Join(dir, name+".like"), like)
		like.Release()
		results, inputs = append(results, values), append(inputs, rows)
	}
	text, err := json.Marshal(listed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cases.json"), text, 0o600))
	said, err := exec.CommandContext(context.Background(), python, filepath.Join("function", "testdata", "engine.py"), engine, dir).CombinedOutput()
	require.NoError(t, err, string(said))
	for i, c := range cases {
		want := readRows(t, filepath.Join(dir, listed[i]["output"]))
		require.Equal(t, want.Len(), results[i].Len())
		for row := range want.Len() {
			if !sameValue(want, results[i], row) {
				t.Errorf("%s of %s: %s is %s, in %s %s", c.text, c.types, rowText(inputs[i], row), results[i].ValueStr(row), engine, want.ValueStr(row))
				break
			}
		}
		want.Release()
	}
}

// successful returns the rows of a case for which the expression has a value, and the values.
func successful(t *testing.T, c engineCase) (arrow.RecordBatch, arrow.Array) {
	t.Helper()
	v, err := ParseValue(c.text)
	require.NoError(t, err, c.text)
	rows := engineInput(c, engineRows)
	bound, err := v.Bind(rows.Schema())
	require.NoError(t, err, "%s of %s", c.text, c.types)
	values, err := evaluateChecked(t, bound, rows)
	if err == nil {
		return rows, values
	}
	var kept []int32
	for row := range int(rows.NumRows()) {
		one := rows.NewSlice(int64(row), int64(row)+1)
		value, err := evaluateChecked(t, bound, one)
		if err == nil {
			kept = append(kept, int32(row))
			value.Release()
		}
		one.Release()
	}
	require.Greater(t, len(kept), engineRows/10, "%s of %s has few values", c.text, c.types)
	some, err := batch.Filter(rows, kept, memory.DefaultAllocator)
	require.NoError(t, err)
	rows.Release()
	values, err = evaluateChecked(t, bound, some)
	require.NoError(t, err)
	return some, values
}

// evaluateChecked evaluates an expression, and compares the memory that it requests with Size. The
// result is in memory that is not checked.
func evaluateChecked(t *testing.T, bound *Computed, rows arrow.RecordBatch) (arrow.Array, error) {
	t.Helper()
	mem := memory.NewCheckedAllocator(batch.Default())
	count := &countingAllocator{Allocator: mem}
	values, err := bound.Evaluate(rows, count)
	if most := bound.Size(rows); count.bytes > most {
		require.Failf(t, "too much memory", "%s requests %d bytes for %d rows, more than %d", bound, count.bytes, rows.NumRows(), most)
	}
	if err != nil {
		mem.AssertSize(t, 0)
		require.Equal(t, fault.Invalid, fault.KindOf(err), err)
		require.NotEmpty(t, fault.As(err).Remedy, err)
		return nil, err
	}
	require.True(t, arrow.TypeEqual(bound.Type(), values.DataType()))
	out, err := array.Concatenate([]arrow.Array{values}, memory.DefaultAllocator)
	require.NoError(t, err)
	values.Release()
	mem.AssertSize(t, 0)
	return out, nil
}

// countingAllocator counts the bytes that are requested.
type countingAllocator struct {
	memory.Allocator
	bytes int64
}

func (c *countingAllocator) Allocate(size int) []byte {
	c.bytes += int64(size)
	return c.Allocator.Allocate(size)
}

func sameValue(want, got arrow.Array, row int) bool {
	if want.IsNull(row) || got.IsNull(row) {
		return want.IsNull(row) == got.IsNull(row)
	}
	switch want := want.(type) {
	case *array.Float64:
		x, y := want.Value(row), got.(*array.Float64).Value(row)
		return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
	case *array.Float32:
		x, y := want.Value(row), got.(*array.Float32).Value(row)
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	default:
		return want.ValueStr(row) == got.ValueStr(row)
	}
}

func rowText(rows arrow.RecordBatch, row int) string {
	var out []string
	for i, a := range rows.Columns() {
		out = append(out, fmt.Sprintf("%s=%q", rows.ColumnName(i), a.ValueStr(row)))
	}
	return strings.Join(out, " ")
}

func writeRows(t *testing.T, path string, rows arrow.RecordBatch) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(rows.Schema()))
	require.NoError(t, err)
	require.NoError(t, w.Write(rows))
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

func readRows(t *testing.T, path string) arrow.Array {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	r, err := ipc.NewFileReader(f)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var parts []arrow.Array
	for i := range r.NumRecords() {
		rows, err := r.RecordBatchAt(i)
		require.NoError(t, err)
		defer rows.Release()
		parts = append(parts, rows.Column(0))
	}
	out, err := array.Concatenate(parts, memory.DefaultAllocator)
	require.NoError(t, err)
	return out
}
