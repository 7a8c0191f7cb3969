package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
)

func TestStatusHasMemoryNowAndItsPeak(t *testing.T) {
	m, err := parseStatus("Name:\tpenstock\nVmPeak:\t 9 kB\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\nThreads:\t9\n")
	require.NoError(t, err)
	require.Equal(t, memory{now: 100 << 20, peak: 200 << 20}, m)

	own, err := memoryOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, own.now)
	require.GreaterOrEqual(t, own.peak, own.now)

	for name, text := range map[string]string{
		"a process that has ended": "Name:\tpenstock\nState:\tZ (zombie)\n",
		"no peak":                  "VmRSS:\t 1 kB\n",
		"another unit":             "VmRSS:\t 1 MB\nVmHWM:\t 1 kB\n",
		"no number":                "VmRSS:\t x kB\nVmHWM:\t 1 kB\n",
	} {
		_, err := parseStatus(text)
		require.Error(t, err, name)
	}
}

func TestBoundOfABudget(t *testing.T) {
	require.Equal(t, 576*mebi, bound(256*mebi))
	require.Equal(t, "576 MiB", sized(bound(256*mebi)))
	require.Equal(t, "4 GiB", sized(4*gibi))
}

func TestGoroutinesAreCounted(t *testing.T) {
	n, err := parseGoroutines("goroutine profile: total 42\n")
	require.NoError(t, err)
	require.Equal(t, 42, n)
	_, err = parseGoroutines("404 page not found")
	require.Error(t, err)
}

// batch returns rows of all types that digests support. A value below zero becomes a null.
func batch(t *testing.T, values ...int) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(arrowMemory(), arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	}, nil))
	defer b.Release()
	for _, v := range values {
		if v < 0 {
			for _, f := range b.Fields() {
				f.AppendNull()
			}
			continue
		}
		b.Field(0).(*array.Int32Builder).Append(int32(v))
		b.Field(1).(*array.Int64Builder).Append(int64(v))
		b.Field(2).(*array.Float32Builder).Append(float32(v))
		b.Field(3).(*array.Float64Builder).Append(float64(v))
		b.Field(4).(*array.BooleanBuilder).Append(v%2 == 1)
		b.Field(5).(*array.StringBuilder).Append(strings.Repeat("x", v))
		l := b.Field(6).(*array.ListBuilder)
		l.Append(true)
		for i := range v {
			l.ValueBuilder().(*array.Int64Builder).Append(int64(i * v))
		}
	}
	return b.NewRecordBatch()
}

// digestOf returns the digest of rows that are divided at the given positions.
func digestOf(t *testing.T, rows arrow.RecordBatch, cuts ...int64) string {
	t.Helper()
	var d digest
	from := int64(0)
	for _, to := range append(cuts, rows.NumRows()) {
		part := rows.NewSlice(from, to)
		require.NoError(t, d.add(part))
		part.Release()
		from = to
	}
	return d.String()
}

func TestDigestDoesNotDependOnBatches(t *testing.T) {
	rows := batch(t, 3, -1, 0, 5, 2, -1, 7, 1)
	whole := digestOf(t, rows)
	for cut := range rows.NumRows() {
		require.Equal(t, whole, digestOf(t, rows, cut))
		require.Equal(t, whole, digestOf(t, rows, cut, cut), "an empty batch")
	}
	require.Contains(t, whole, "8 rows")
}

func TestDigestSeesWhatDiffers(t *testing.T) {
	whole := digestOf(t, batch(t, 3, -1, 0, 5))
	for name, rows := range map[string]arrow.RecordBatch{
		"a value":        batch(t, 3, -1, 0, 6),
		"a lost row":     batch(t, 3, -1, 0),
		"another order":  batch(t, -1, 3, 0, 5),
		"null, not zero": batch(t, 3, -1, -1, 5),
		"zero, not null": batch(t, 3, 0, 0, 5),
	} {
		require.NotEqual(t, whole, digestOf(t, rows), name)
	}
	// Each column separately.
	one, other := batch(t, 1, 4), batch(t, 1, 5)
	for i := range int(one.NumCols()) {
		columns := slices.Clone(one.Columns())
		columns[i] = other.Column(i)
		require.NotEqual(t, digestOf(t, one), digestOf(t, array.NewRecordBatch(one.Schema(), columns, 2)), one.ColumnName(i))
	}
}

// cells returns a column of strings, or of lists of one element each; "" is null and "-" an empty
// value.
func cells(t *testing.T, lists bool, values ...string) string {
	t.Helper()
	var b array.Builder = array.NewStringBuilder(arrowMemory())
	if lists {
		b = array.NewListBuilder(arrowMemory(), arrow.PrimitiveTypes.Int64)
	}
	for _, v := range values {
		if v == "" {
			b.AppendNull()
			continue
		}
		v = strings.TrimPrefix(v, "-")
		switch b := b.(type) {
		case *array.StringBuilder:
			b.Append(v)
		case *array.ListBuilder:
			b.Append(true)
			for _, r := range v {
				b.ValueBuilder().(*array.Int64Builder).Append(int64(r))
			}
		}
	}
	column := b.NewArray()
	schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: column.DataType(), Nullable: true}}, nil)
	return digestOf(t, array.NewRecordBatch(schema, []arrow.Array{column}, int64(len(values))))
}

func TestDigestSeesNullsLengthsAndBytesEachAlone(t *testing.T) {
	for _, lists := range []bool{false, true} {
		whole := cells(t, lists, "ab", "", "c", "-")
		require.Equal(t, whole, cells(t, lists, "ab", "", "c", "-"))
		require.NotEqual(t, whole, cells(t, lists, "ab", "c", "", "-"), "where the null is")
		require.NotEqual(t, whole, cells(t, lists, "a", "", "bc", "-"), "where a value ends")
		require.NotEqual(t, whole, cells(t, lists, "ax", "", "c", "-"), "what it is")
		require.NotEqual(t, whole, cells(t, lists, "ab", "-", "c", ""), "empty or null")
	}
}

func TestDigestIgnoresWhatLiesUnderNulls(t *testing.T) {
	b := array.NewInt64Builder(arrowMemory())
	b.AppendValues([]int64{1, 99}, []bool{true, false})
	under := b.NewArray()
	b.AppendValues([]int64{1, 0}, []bool{true, false})
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	require.Equal(t, digestOf(t, array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, 2)), digestOf(t, array.NewRecordBatch(schema, []arrow.Array{under}, 2)))
}

func TestFailureIsOfTheKindThatItsDetailsSay(t *testing.T) {
	err := failed("stream", status.Error(codes.ResourceExhausted, "too large"),
		metadata.Pairs(failure.TrailerKey, `{"kind": "exhausted", "remedy": "ask with batch_rows: 4096 or less", "retry_after_ms": 1500}`))
	require.True(t, isKind(err, "exhausted"))
	require.False(t, isKind(err, "invalid"))
	var f *refusal
	require.ErrorAs(t, err, &f)
	require.Equal(t, 1500*time.Millisecond, f.after)
	require.Equal(t, 4096, fits(f, 65_536))

	require.True(t, isKind(failed("plan", status.Error(codes.Unavailable, "gone"), nil), "unavailable"))
	require.True(t, isKind(&refusal{kind: "not_found"}, "not found"))
	require.False(t, isKind(errors.New("x"), "invalid"))
}

func TestFitsIsFewerRowsThanWereAskedFor(t *testing.T) {
	for text, want := range map[string]int{
		"use batch_rows 2048":                         2048,
		"set batch_rows to 26 or fewer":               26,
		"a batch of 65536 rows takes 9 GiB":           0,
		"at most 512 rows fit in 32 MiB":              512,
		"ask for fewer rows a batch with batch_rows":  0,
		"batch_rows 65536 is too many; use 1000 rows": 1000,
	} {
		require.Equal(t, want, fits(&refusal{text: text}, 65_536), text)
		require.Equal(t, want, fits(&refusal{remedy: text, text: "65536 rows"}, 65_536), text)
	}
}

func TestOneFailedCheckFailsTheRun(t *testing.T) {
	var out strings.Builder
	r := &report{out: &out}
	r.head()
	r.add(line{Attack: "a", Check: "c", Figure: "1", Bound: "2", Pass: true})
	require.Zero(t, r.failed())
	r.add(line{Attack: "b", Check: "c", Figure: "3", Bound: "2"})
	require.Equal(t, 1, r.failed())
	require.Contains(t, out.String(), "FAIL  b")
	path := filepath.Join(t.TempDir(), "out.json")
	require.NoError(t, r.write(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"figure": "3"`)
}

func TestAttacksAreChosenByTheBeginningsOfTheirNames(t *testing.T) {
	chosen, err := choose("peak-,churn", false)
	require.NoError(t, err)
	var names []string
	for _, a := range chosen {
		names = append(names, a.name)
	}
	require.Equal(t, []string{"peak-active", "peak-stalled", "peak-batches", "peak-lanes", "peak-spill", "churn"}, names)
	_, err = choose("ratio", false)
	require.NoError(t, err)
	_, err = choose("ratio", true)
	require.Error(t, err, "it compares speeds")
	_, err = choose("nothing", false)
	require.Error(t, err)
}

func TestBombIsSmallAndDeclaresMuch(t *testing.T) {
	size, err := sharedValue.lay(t.Context(), t.TempDir(), true)
	require.NoError(t, err)
	require.Less(t, size, int64(16<<10))
	columns, value := wholePages.columns()
	require.EqualValues(t, gibi, columns*value*bombRows)
}
