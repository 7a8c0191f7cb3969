package function

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
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

var (
	micros = &arrow.TimestampType{Unit: arrow.Microsecond}
	zoned  = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	nanos  = &arrow.TimestampType{Unit: arrow.Nanosecond}
)

// trialRows is the number of random rows of a trial.
const trialRows = 10_000

func (c trial) String() string {
	types := make([]string, len(c.args))
	for i, a := range c.args {
		types[i] = a.dt.String()
		if a.literal != "" {
			types[i] = a.literal
		}
	}
	return fmt.Sprintf("%s(%s)", c.name, strings.Join(types, ", "))
}

// call returns the call as SQL.
func (c trial) call() string {
	names := make([]string, len(c.args))
	for i, a := range c.args {
		names[i] = string(rune('a' + i))
		if a.literal != "" {
			names[i] = a.literal
		}
	}
	return fmt.Sprintf("%s(%s)", c.name, strings.Join(names, ", "))
}

// rows are the arguments of a trial. Literals have one value.
type rows struct {
	c      trial
	n      int
	values [][]any
	args   []arrow.Array
}

func (c trial) rows(t *testing.T, n int, values [][]any) *rows {
	t.Helper()
	out := &rows{c: c, n: n, values: values}
	for i, g := range c.args {
		out.args = append(out.args, column(t, g.dt, values[i]))
	}
	t.Cleanup(func() { releaseAll(out.args) })
	return out
}

func (c trial) random(t *testing.T, n int) *rows {
	t.Helper()
	r := rand.New(rand.NewPCG(1, uint64(len(c.String()))))
	values := make([][]any, len(c.args))
	for i, g := range c.args {
		m := n
		if g.literal != "" {
			m = 1
		}
		for range m {
			values[i] = append(values[i], g.value(r))
		}
	}
	return c.rows(t, n, values)
}

func (c trial) bind(t *testing.T, in *rows) Bound {
	t.Helper()
	args := make([]Argument, len(c.args))
	for i, g := range c.args {
		args[i].Type = g.dt
		if g.literal != "" {
			args[i].Literal = in.args[i]
		}
	}
	b, err := Bind(c.name, args)
	require.NoError(t, err)
	return b
}

// slice returns some rows of the arguments. The caller releases them.
func (r *rows) slice(from, to int) []arrow.Array {
	out := make([]arrow.Array, len(r.args))
	for i, a := range r.args {
		if r.c.args[i].literal != "" {
			a.Retain()
			out[i] = a
			continue
		}
		out[i] = array.NewSlice(a, int64(from), int64(to))
	}
	return out
}

// run runs the function on some rows, and checks the memory that it takes.
func (r *rows) run(t *testing.T, b Bound, from, to int) (arrow.Array, error) {
	t.Helper()
	mem := memory.NewCheckedAllocator(batch.Default())
	count := &counting{Allocator: mem}
	args := r.slice(from, to)
	defer releaseAll(args)
	sizes := make([]int64, len(args))
	for i, a := range args {
		sizes[i] = visibleBytes(a)
	}
	out, err := b.Run(args, to-from, count)
	if err != nil {
		mem.AssertSize(t, 0)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.NotEmpty(t, fault.As(err).Remedy, err)
		return nil, err
	}
	require.Equal(t, to-from, out.Len())
	require.Truef(t, arrow.TypeEqual(b.Type, out.DataType()), "%s is not %s", out.DataType(), b.Type)
	if most := b.Size(sizes, to-from); count.bytes > most {
		require.Failf(t, "too much memory", "%s allocates %d bytes for %d rows, more than %d", r.c, count.bytes, to-from, most)
	}
	copied := detached(t, out)
	out.Release()
	mem.AssertSize(t, 0)
	return copied, nil
}

// visibleBytes returns the bytes of the rows of an array: values, offsets and validity bits.
func visibleBytes(a arrow.Array) int64 {
	sum := int64(bitmapBytes(a.Len()))
	switch a := a.(type) {
	case *array.String:
		return sum + int64(4*a.Len()+4) + int64(len(a.ValueBytes()))
	case *array.Binary:
		return sum + int64(4*a.Len()+4) + int64(len(a.ValueBytes()))
	case *array.List:
		sum += int64(4*a.Len() + 4)
		if a.Len() > 0 {
			from, _ := a.ValueOffsets(0)
			_, to := a.ValueOffsets(a.Len() - 1)
			items := array.NewSlice(a.ListValues(), from, to)
			defer items.Release()
			sum += visibleBytes(items)
		}
		return sum
	case *array.Boolean:
		return 2 * sum
	default:
		return sum + int64(a.Len()*a.DataType().(arrow.FixedWidthDataType).Bytes())
	}
}

// detached copies an array to memory that is not counted.
func detached(t *testing.T, a arrow.Array) arrow.Array {
	t.Helper()
	out, err := array.Concatenate([]arrow.Array{a}, memory.DefaultAllocator)
	require.NoError(t, err)
	return out
}

// successful removes the rows for which the function has no result, and returns the others with their results.
func (r *rows) successful(t *testing.T, b Bound) (*rows, arrow.Array) {
	t.Helper()
	out, err := r.run(t, b, 0, r.n)
	if err == nil {
		return r, out
	}
	require.True(t, r.c.fails, "%s: %v", r.c, err)
	kept, n := make([][]any, len(r.values)), 0
	for i := range r.n {
		one, err := r.run(t, b, i, i+1)
		if err != nil {
			continue
		}
		one.Release()
		n++
		for k := range r.values {
			if r.c.args[k].literal == "" {
				kept[k] = append(kept[k], r.values[k][i])
			}
		}
	}
	for k, g := range r.c.args {
		if g.literal != "" {
			kept[k] = r.values[k]
		}
	}
	require.Greater(t, n, r.n/8, "%s has a result for few rows", r.c)
	rest := r.c.rows(t, n, kept)
	out, err = rest.run(t, b, 0, n)
	require.NoError(t, err)
	return rest, out
}

// TestSlicesHaveTheSameResults runs all functions on slices of batches, on no rows, and on single rows.
func TestSlicesHaveTheSameResults(t *testing.T) {
	t.Parallel()
	for _, c := range cases() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			in := c.random(t, 1000)
			b := c.bind(t, in)
			in, whole := in.successful(t, b)
			defer whole.Release()
			require.True(t, b.Nullable || !hasMoreNulls(in, whole))
			for from := 0; from < in.n; {
				to := min(in.n, from+1+from%67)
				part, err := in.run(t, b, from, to)
				require.NoError(t, err)
				want := array.NewSlice(whole, int64(from), int64(to))
				require.NoError(t, differs(want, part, trial{}))
				want.Release()
				part.Release()
				from = to
			}
			none, err := in.run(t, b, in.n, in.n)
			require.NoError(t, err)
			none.Release()
		})
	}
}

// hasMoreNulls reports whether a row is null although none of its arguments is.
func hasMoreNulls(in *rows, out arrow.Array) bool {
	for i := range in.n {
		null := false
		for _, a := range in.args {
			null = null || nullsOf(a, in.n).at(i)
		}
		if out.IsNull(i) && !null {
			return true
		}
	}
	return false
}

// differs returns the first difference between an expected and a computed array.
func differs(want, got arrow.Array, c trial) error {
	if want.Len() != got.Len() {
		return fmt.Errorf("%d rows, not %d", got.Len(), want.Len())
	}
	for i := range want.Len() {
		if !same(want, got, i, c) {
			return fmt.Errorf("row %d is %s, not %s", i, got.ValueStr(i), want.ValueStr(i))
		}
	}
	return nil
}

func same(want, got arrow.Array, i int, c trial) bool {
	if want.IsNull(i) || got.IsNull(i) {
		return want.IsNull(i) == got.IsNull(i)
	}
	switch want := want.(type) {
	case *array.Float64:
		x, y := want.Value(i), got.(*array.Float64).Value(i)
		near := math.Abs(float64(int64(math.Float64bits(x))-int64(math.Float64bits(y)))) <= float64(c.ulps)
		return near || math.IsNaN(x) && math.IsNaN(y) || c.anySign && x == y
	case *array.Float32:
		x, y := want.Value(i), got.(*array.Float32).Value(i)
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y || c.anySign && x == y
	default:
		return array.SliceEqual(want, int64(i), int64(i+1), got, int64(i), int64(i+1)) ||
			want.ValueStr(i) == got.ValueStr(i) && want.DataType().ID() == arrow.LIST // NaN in lists
	}
}

// TestDuckDBHasTheSameResults compares all functions with DuckDB.
//
// spec: function-1, function-3, function-14
func TestDuckDBHasTheSameResults(t *testing.T) {
	compare(t, "duckdb", "PENSTOCK_PYTHON", func(c trial) string { return c.duckdb })
}

// TestSparkHasTheSameResults compares all functions with Spark.
//
// spec: function-2, function-3
func TestSparkHasTheSameResults(t *testing.T) {
	if os.Getenv("PENSTOCK_SPARK_TESTS") == "" {
		t.Skip("this test takes minutes; make test-spark sets PENSTOCK_SPARK_TESTS and runs it")
	}
	compare(t, "spark", "PENSTOCK_SPARK_PYTHON", func(c trial) string { return c.spark })
}

// engineCase is a case of testdata/engine.py.
type engineCase struct {
	Input  string `json:"input"`
	Like   string `json:"like"`
	Output string `json:"output"`
	SQL    string `json:"sql"`
}

// without is the SQL of a function that an engine does not have.
const without = "-"

func compare(t *testing.T, engine, variable string, sql func(trial) string) {
	t.Helper()
	t.Parallel()
	python := os.Getenv(variable)
	if python != "" {
		if _, err := os.Stat(python); err != nil {
			python = ""
		}
	}
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set %s", variable)
		t.Skipf("%s names no Python to run %s with", variable, engine)
	}
	dir := t.TempDir()
	var all []engineCase
	var tried []trial
	var inputs []*rows
	var results []arrow.Array
	for _, c := range cases() {
		text := sql(c)
		if text == without {
			continue
		}
		if text == "" {
			text = c.call()
		}
		in := c.random(t, trialRows)
		b := c.bind(t, in)
		in, out := in.successful(t, b)
		defer out.Release()
		name := strconv.Itoa(len(all))
		e := engineCase{name + ".in", name + ".like", name + ".out", text}
		in.write(t, filepath.Join(dir, e.Input))
		writeColumns(t, filepath.Join(dir, e.Like), []string{"r"}, []arrow.Array{out})
		all, tried, inputs, results = append(all, e), append(tried, c), append(inputs, in), append(results, out)
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cases.json"), text, 0o600))
	said, err := exec.CommandContext(context.Background(), python, filepath.Join("testdata", "engine.py"), engine, dir).CombinedOutput()
	require.NoError(t, err, string(said))
	for i, e := range all {
		want := readColumn(t, filepath.Join(dir, e.Output))
		if err := differs(want, results[i], tried[i]); err != nil {
			t.Errorf("%s as %s: %v; %s", tried[i], e.SQL, err, inputs[i].near(want, results[i]))
		}
		want.Release()
	}
}

// near returns the arguments of the first row whose results differ.
func (r *rows) near(want, got arrow.Array) string {
	for i := range min(want.Len(), got.Len()) {
		if !same(want, got, i, r.c) {
			var out []string
			for _, a := range r.args {
				out = append(out, fmt.Sprintf("%q", a.ValueStr(i&maskOf(a, r.n))))
			}
			return "arguments: " + strings.Join(out, ", ")
		}
	}
	return ""
}

// write writes the arguments that vary, and a column with the number of the row.
func (r *rows) write(t *testing.T, path string) {
	t.Helper()
	numbers := make([]any, r.n)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	number := column(t, arrow.PrimitiveTypes.Int64, numbers)
	defer number.Release()
	names, columns := []string{"row_number"}, []arrow.Array{number}
	for i, a := range r.args {
		if r.c.args[i].literal == "" {
			names, columns = append(names, string(rune('a'+i))), append(columns, a)
		}
	}
	writeColumns(t, path, names, columns)
}

func writeColumns(t *testing.T, path string, names []string, columns []arrow.Array) {
	t.Helper()
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: columns[i].DataType(), Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	rows := array.NewRecordBatch(schema, columns, int64(columns[0].Len()))
	defer rows.Release()
	file, err := os.Create(path)
	require.NoError(t, err)
	w, err := ipc.NewFileWriter(file, ipc.WithSchema(schema))
	require.NoError(t, err)
	require.NoError(t, w.Write(rows))
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
}

func readColumn(t *testing.T, path string) arrow.Array {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	r, err := ipc.NewFileReader(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var parts []arrow.Array
	for i := range r.NumRecords() {
		rec, err := r.RecordBatch(i)
		require.NoError(t, err)
		rec.Column(0).Retain()
		parts = append(parts, rec.Column(0))
	}
	defer releaseAll(parts)
	out, err := array.Concatenate(parts, memory.DefaultAllocator)
	require.NoError(t, err)
	return out
}
