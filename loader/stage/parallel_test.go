package stage_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// large is a budget that suffices for writing several partitions at the same time.
const large = 8 << 30

// threads sets the number of goroutines of the rig's calls.
func threads(r *stagetest.Rig, n int) {
	o := r.Rows
	o.Threads, o.FileBytes = n, 16<<10
	r.Restart(o)
}

// days returns rows of several days: few on the first, random numbers on the second, which no
// encoding makes smaller, and increasing numbers on the others.
func days() array.RecordReader {
	of := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "value", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, of)
	defer b.Release()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	for day, n := range []int{100, 45_000, 3000, 4000, 200, 2000} {
		for i := range n {
			value := int64(i) * 1000
			if day == 1 {
				value = random.Int64()
			}
			b.Field(0).(*array.Int64Builder).Append(int64(i*7919%n) + int64(day)<<32)
			b.Field(1).(*array.Date32Builder).Append(arrow.Date32(20_000 + day))
			b.Field(2).(*array.Int64Builder).Append(value)
		}
	}
	out, err := array.NewRecordReader(of, []arrow.RecordBatch{b.NewRecordBatch()})
	if err != nil {
		panic(err)
	}
	return out
}

// byDay returns a request that creates the table with a partition for each day.
func byDay() dataset.TableWrite {
	return dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Buckets: 1, Partition: []string{"day"}}
}

// contents returns the folder name and content of each file of the table, in the order of the
// manifest.
func contents(t *testing.T, r *stagetest.Rig) []string {
	t.Helper()
	var out []string
	for _, f := range r.Listed(t, "") {
		path, err := store.Path(f.Location)
		require.NoError(t, err)
		content, err := os.ReadFile(path) //nolint:gosec // a test's own file
		require.NoError(t, err)
		folder, err := filepath.Rel(r.Dir, filepath.Dir(path))
		require.NoError(t, err)
		out = append(out, folder+": "+string(content))
	}
	return out
}

// The files do not depend on the number of partitions that are written at the same time.
//
// spec: stage-54
func TestFilesDoNotDependOnThreads(t *testing.T) {
	var want []string
	for _, n := range []int{1, 2, 5} {
		r := stagetest.New(t, large, nil)
		threads(r, n)
		out, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, byDay(), days())
		require.NoError(t, err)
		got := contents(t, r)
		require.Len(t, got, out.Files)
		require.Greater(t, len(got), out.Partitions)
		if want == nil {
			want = got
		}
		require.True(t, slices.Equal(want, got), "files differ with %d threads", n)
	}
}

// If memory is insufficient for a partition while others are written, the partition is written
// again, alone.
//
// spec: stage-55
func TestPartitionsWaitForMemory(t *testing.T) {
	whole := stagetest.New(t, large, nil)
	threads(whole, 1)
	_, err := whole.Stager.Stage(t.Context(), stage.CallOptions{}, byDay(), days())
	require.NoError(t, err)
	want := contents(t, whole)
	full := fault.New(fault.Exhausted, "memory is full")
	rules := []errstore.Rule{{Location: "-00001-00001.parquet", Call: errstore.Finish, Nth: 1}} // a file is complete
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish} {
		for nth := 1; nth <= 4; nth++ {
			rules = append(rules, errstore.Rule{Location: ".parquet", Call: call, Nth: nth})
		}
	}
	for _, rule := range rules {
		t.Run(fmt.Sprint(rule.Location, " ", rule.Call, " ", rule.Nth), func(t *testing.T) {
			rule.Action = errstore.Fail(full)
			r := stagetest.New(t, large, nil, rule)
			threads(r, 3)
			out, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, byDay(), days())
			require.NoError(t, err)
			require.Len(t, r.Column(t, "", "id"), 54_300)
			require.EqualValues(t, 54_300, out.Rows)
			require.True(t, slices.Equal(want, contents(t, r)), "files differ")
			require.Len(t, want, out.Files)
			require.Len(t, r.Parquet(t), out.Files)
			bytes := int64(0)
			for _, f := range r.Listed(t, "") {
				bytes += f.Bytes
			}
			require.Equal(t, bytes, out.Bytes)
		})
	}
	t.Run("alone", func(t *testing.T) {
		r := stagetest.New(t, large, nil, errstore.Rule{Location: ".parquet", Call: errstore.Begin, Action: errstore.Fail(full)})
		threads(r, 3)
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, byDay(), days())
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.Empty(t, r.Parquet(t))
	})
}

// A budget that is small for the number of threads is sufficient and not exceeded.
//
// spec: stage-42, stage-55
func TestManyThreadsAndLittleMemory(t *testing.T) {
	const limit = int64(large)
	r := stagetest.New(t, limit, nil)
	others, err := r.Budget.Reserve("others", limit-40<<20)
	require.NoError(t, err)
	defer others.Release()
	threads(r, 5)
	of := stagetest.Schema()
	var text strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&text, "%c{\"id\": %d, \"day\": \"2026-10-%02d\", \"items\": [%[2]d], \"country\": \"%0100d\"}", ",["[min(1, max(0, 1-i))], i, 1+i%5, i)
	}
	request := byDay()
	ctx, entered := r.Budget.Enter(t.Context(), "test")
	defer entered.Release()
	out, err := r.Stager.Stage(ctx, stage.CallOptions{}, request, stagetest.Rows(t, of, text.String()+"]"))
	require.NoError(t, err)
	require.Equal(t, 5, out.Partitions)
	require.Len(t, r.Column(t, "", "id"), 30_000)
}
