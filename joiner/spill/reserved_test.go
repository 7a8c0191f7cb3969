package spill_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/joiner/spill"
)

// withLongRows is a world in which some staging rows, each with a key of its own, are much longer than the others.
func withLongRows(rule joiner.Rule, rows, bytes int) joinertest.World {
	const batchRows, every = 97, 7
	w := skewed(rand.New(rand.NewPCG(5, 12)), 300, 5000, rule, joiner.BuildSpec{})
	for i := range rows {
		key := strconv.Itoa(100_000 + i)
		w.Training.Rows[i*every][1] = key
		row := w.Staging[0].Rows[i*batchRows]
		row[1], row[3] = key, strings.Repeat("w", bytes)
	}
	return w
}

// excess joins a world from disk. It returns how many bytes were allocated that were not reserved. The batches that are read count
// only if read is true.
func excess(t *testing.T, w joinertest.World, read bool, expected int64) int64 {
	t.Helper()
	limit := budget.New(64 << 20)
	mem := &batchtest.Reserved{Allocator: memory.DefaultAllocator, Of: limit}
	input := memory.Allocator(mem)
	if !read {
		input = memory.DefaultAllocator
	}
	opts := spill.Options{Options: joiner.Options{Memory: mem, Budget: limit}, WorkingMemory: 1 << 20, ExpectedBytes: expected}
	opts.Disk, _ = disk(t, mem)
	r, err := joiner.Join(t.Context(), w.Training.Input(t, memory.DefaultAllocator, nil, w.Columns), probesFrom(t, w, input, opts), joiner.Options{Budget: limit})
	require.NoError(t, err)
	for r.Next() {
		require.Positive(t, r.RecordBatch().NumRows())
	}
	require.NoError(t, r.Err())
	require.Positive(t, r.Counts()[0].Matched)
	r.Release()
	require.Zero(t, limit.Used())
	require.Zero(t, mem.Used())
	out, _ := mem.Excess()
	return out
}

// TestLongRowsAreReserved joins tables of which a few rows are much longer than the others: copies of them are reserved before
// they are allocated.
//
// spec: join-51
func TestLongRowsAreReserved(t *testing.T) {
	t.Parallel()
	const longBytes, small = 100 << 10, 64 << 10 // the bytes of a long row, and those of columns of numbers
	for name, c := range map[string]struct {
		rule     joiner.Rule
		expected int64 // of the staging rows: it decides about the number of slices
	}{
		"slices in memory":    {joiner.Rule{Duplicates: rule.DuplicatesFirst}, 16 << 20},
		"slices in portions":  {joiner.Rule{Duplicates: rule.DuplicatesFirst}, 1},
		"all, in memory":      {joiner.Rule{Duplicates: rule.DuplicatesAll}, 16 << 20},
		"all, in portions":    {joiner.Rule{Duplicates: rule.DuplicatesAll}, 1},
		"only matching, last": {joiner.Rule{Duplicates: rule.DuplicatesLast, Kind: rule.Inner}, 4 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := withLongRows(c.rule, 40, longBytes)
			require.LessOrEqual(t, excess(t, w, true, c.expected), int64(longBytes+small), "the reader itself holds a batch, which has one long row")
		})
	}
	t.Run("dictionaries", func(t *testing.T) {
		t.Parallel()
		w := withLongRows(joiner.Rule{Duplicates: rule.DuplicatesFirst}, 1, 8*longBytes)
		w.Training.Cuts = slices.Repeat([]int{3}, len(w.Training.Rows)/3-1)
		require.LessOrEqual(t, excess(t, w, false, 1), int64(small))
	})
}
