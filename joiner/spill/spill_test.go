package spill_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/joiner/spill"
)

// TestSpilledAgrees compares joins from disk with joins in memory, with room for a slice
// and with room for one row. PENSTOCK_LONG=1 runs many cases.
//
// spec: join-50, join-52
func TestSpilledAgrees(t *testing.T) {
	all, times := joinertest.Families(t), joinertest.TimeTypes(t)
	seeds := uint64(80 / share)
	if os.Getenv("PENSTOCK_LONG") == "1" {
		seeds = 2000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 8))
		w := joinertest.RandomWorld(r, all, times)
		how := spill.Options{WorkingMemory: joinertest.OneOf(r, []int64{1, 1, 3000, 20_000, 1 << 20}), ExpectedBytes: joinertest.OneOf(r, []int64{0, 1, 1, 4000})}
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			want := w.Run(t, func(*joiner.BuildSide) {})
			var place *spool.Spool
			if seed%8 == 0 {
				how.Disk, place = disk(t, memory.DefaultAllocator)
			}
			got, counts, err := joinFromDisk(t, w, how)
			if place != nil {
				require.Zero(t, place.Stats().Used)
				require.Zero(t, place.Stats().Files)
			}
			if want.Err != nil {
				require.EqualError(t, err, want.Err.Error())
				return
			}
			require.NoError(t, err)
			require.Equal(t, want.Rows, got)
			require.Equal(t, want.Counts, counts)
		})
		require.True(t, ok)
	}
}

// skewed is a world of many rows, half of which have one key on either side.
func skewed(r *rand.Rand, training, staging int, rule joiner.Rule, spec joiner.BuildSpec) joinertest.World {
	c := []arrow.Field{joinertest.Field("id", arrow.PrimitiveTypes.Int64), joinertest.Field("k", arrow.PrimitiveTypes.Int64), joinertest.Field("t", arrow.PrimitiveTypes.Int64), joinertest.Field("word", arrow.BinaryTypes.String)}
	make := func(name string, n int) joinertest.Table {
		x := joinertest.Table{Name: name, Fields: c}
		for i := range n {
			key := "7"
			if r.IntN(2) == 0 {
				key = strconv.Itoa(r.IntN(n))
			}
			x.Rows = append(x.Rows, []string{strconv.Itoa(i), key, strconv.Itoa(r.IntN(50)), strings.Repeat("w", r.IntN(20))})
		}
		for n > 97 {
			x.Cuts, n = append(x.Cuts, 97), n-97
		}
		return x
	}
	built := joinertest.Staging{Table: make("s", staging), Key: []int{1}, At: []int{1}, Columns: []int{0, 3}, Rule: rule, Spec: spec}
	built.Rule.Name, built.Spec.Name = "s", "s"
	return joinertest.World{Training: make("training", training), Columns: []int{0}, Staging: []joinertest.Staging{built}}
}

// TestSpilledSkew joins build sides in which one key has half of the rows, with memory for few
// of them.
//
// spec: join-50, join-51
func TestSpilledSkew(t *testing.T) {
	t.Parallel()
	order := []joiner.Order{{Column: 3}, {Column: 2, Descending: true}}
	for name, c := range map[string]struct {
		rule joiner.Rule
		spec joiner.BuildSpec
		rows int // of staging; 0: many
	}{
		"first":        {rule: joiner.Rule{Duplicates: rule.DuplicatesFirst}},
		"last ordered": {rule: joiner.Rule{Duplicates: rule.DuplicatesLast}, spec: joiner.BuildSpec{OrderBy: order, Matched: "matched"}},
		"error":        {rule: joiner.Rule{Duplicates: rule.DuplicatesError}},
		"anti":         {rule: joiner.Rule{Kind: rule.Anti}},
		"time": {
			rule: joiner.Rule{Duplicates: rule.DuplicatesLast, Time: &joiner.TimeRule{Column: 2, Tolerance: 30}},
			spec: joiner.BuildSpec{Time: new(2), OrderBy: order},
		},
		"all":         {rule: joiner.Rule{Duplicates: rule.DuplicatesAll, Kind: rule.Inner}, rows: 200},
		"all ordered": {rule: joiner.Rule{Duplicates: rule.DuplicatesAll}, spec: joiner.BuildSpec{OrderBy: order, Matched: "matched"}, rows: 200},
		"all in time": {
			rule: joiner.Rule{Duplicates: rule.DuplicatesAll, Time: &joiner.TimeRule{Column: 2, Tolerance: 9, Exact: true}},
			spec: joiner.BuildSpec{Time: new(2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := c.rows
			if rows == 0 {
				rows = 500
			}
			w := skewed(rand.New(rand.NewPCG(5, 5)), rows, rows, c.rule, c.spec)
			want := w.Run(t, func(*joiner.BuildSide) {})
			for _, memory := range []int64{8 << 10, 1 << 20} {
				got, counts, err := joinFromDisk(t, w, spill.Options{WorkingMemory: memory, ExpectedBytes: 40 << 10})
				if want.Err != nil {
					require.EqualError(t, err, want.Err.Error())
					continue
				}
				require.NoError(t, err)
				require.True(t, slices.Equal(want.Rows, got), "rows differ with %d bytes of memory", memory)
				require.Equal(t, want.Counts, counts)
			}
		})
	}
}

// TestSpilledMemory joins a build side of many times the budget.
//
// spec: join-51
func TestSpilledMemory(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]joiner.Rule{
		"first": {Duplicates: rule.DuplicatesFirst}, "all": {Duplicates: rule.DuplicatesAll, Kind: rule.Inner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := skewed(rand.New(rand.NewPCG(5, 6)), 1500, 30_000, rule, joiner.BuildSpec{})
			w.Training.Rows = w.Training.Rows[:97*2]
			w.Training.Cuts = []int{97}
			mem, limit := joinertest.Checked(t), budget.New(5<<18)
			opts := joiner.Options{Memory: mem, Budget: limit}
			s := w.Staging[0]
			_, err := joiner.Build(t.Context(), s.Input(t, mem, s.Key, s.Columns), s.Spec, opts)
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			stores := &shelf{mem: mem}
			r, err := joiner.Join(t.Context(), w.Training.Input(t, mem, nil, w.Columns), probesOf(t, w, spill.Options{Options: opts, Disk: stores.disk}), opts)
			require.NoError(t, err)
			rows := int64(0)
			for r.Next() {
				rows += r.RecordBatch().NumRows()
			}
			require.NoError(t, r.Err())
			counts := r.Counts()[0]
			r.Release()
			require.Positive(t, counts.Matched)
			if rule.Multiplies() {
				require.Greater(t, rows, int64(400_000))
			} else {
				require.Equal(t, counts.Rows, rows)
			}
			require.Zero(t, limit.Used())
			require.Zero(t, stores.open)
		})
	}
}

// TestSpillFails makes every write fail, one after the other, and the second read of the
// training rows return different rows.
//
// spec: join-52, join-53, join-54
func TestSpillFails(t *testing.T) {
	t.Parallel()
	for _, rule := range []joiner.Rule{{Duplicates: rule.DuplicatesFirst}, {Duplicates: rule.DuplicatesAll}} {
		w := skewed(rand.New(rand.NewPCG(5, 7)), 100, 100, rule, joiner.BuildSpec{OrderBy: []joiner.Order{{Column: 3}}})
		full := fault.New(fault.Unavailable, "the disk is full")
		for writes := 0; ; writes += 1 + writes/2 {
			mem, limit := joinertest.Checked(t), budget.New(1<<30)
			opts := joiner.Options{Memory: mem, Budget: limit}
			stores := &shelf{mem: mem, left: writes, err: full}
			r, err := joiner.Join(t.Context(), w.Training.Input(t, mem, nil, w.Columns), probesOf(t, w, spill.Options{Options: opts, Disk: stores.disk, WorkingMemory: 2000, ExpectedBytes: 1}), opts)
			require.NoError(t, err)
			_, _, err = joinertest.Drain(t, r)
			require.Zero(t, limit.Used())
			require.Zero(t, stores.open)
			if err == nil {
				require.Greater(t, writes, 20)
				break
			}
			require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
		}
	}
	t.Run("other training rows", func(t *testing.T) {
		t.Parallel()
		w := skewed(rand.New(rand.NewPCG(5, 7)), 30, 300, joiner.Rule{Duplicates: rule.DuplicatesFirst}, joiner.BuildSpec{})
		opts := joiner.Options{Memory: joinertest.Checked(t), Budget: budget.New(1 << 30)}
		stores := &shelf{mem: opts.Memory}
		probes := probesOf(t, w, spill.Options{Options: opts, Disk: stores.disk})
		w.Training.Rows = slices.Clone(w.Training.Rows)
		slices.Reverse(w.Training.Rows)
		r, err := joiner.Join(t.Context(), w.Training.Input(t, opts.Memory, nil, w.Columns), probes, opts)
		require.NoError(t, err)
		_, _, err = joinertest.Drain(t, r)
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, "changed between two reads")
		require.Zero(t, opts.Budget.Used())
		require.Zero(t, stores.open)
	})
	t.Run("custom", func(t *testing.T) {
		t.Parallel()
		w := skewed(rand.New(rand.NewPCG(5, 7)), 30, 30, joiner.Rule{}, joiner.BuildSpec{})
		s := w.Staging[0]
		s.Spec.Custom = custom{}
		_, err := spill.Slice(t.Context(), s.Input(t, joinertest.Checked(t), s.Key, s.Columns), s.Spec, spill.Options{})
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.ErrorContains(t, err, "custom")
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		w := skewed(rand.New(rand.NewPCG(5, 7)), 300, 300, joiner.Rule{Duplicates: rule.DuplicatesFirst}, joiner.BuildSpec{})
		opts := joiner.Options{Memory: joinertest.Checked(t), Budget: budget.New(1 << 30)}
		stores := &shelf{mem: opts.Memory}
		ctx, cancel := context.WithCancel(t.Context())
		w.Staging[0].Before = func(batch int) {
			if batch == 2 {
				cancel()
			}
		}
		s := w.Staging[0]
		_, err := spill.Slice(ctx, s.Input(t, opts.Memory, s.Key, s.Columns), s.Spec, spill.Options{Options: opts, Disk: stores.disk})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, opts.Budget.Used())
		require.Zero(t, stores.open)
	})
}

// custom is a strategy that is never used.
type custom struct{ joiner.Custom }

// TestDivide reads the rows of each part, in order, with their files.
//
// spec: join-55
func TestDivide(t *testing.T) {
	t.Parallel()
	w := skewed(rand.New(rand.NewPCG(5, 9)), 0, 1000, joiner.Rule{}, joiner.BuildSpec{})
	x := w.Staging[0].Table
	for _, room := range []int64{1, 5000, 1 << 20} {
		mem, limit := joinertest.Checked(t), budget.New(1<<30)
		stores := &shelf{mem: mem}
		const parts = 5
		of := func(keys []arrow.Array, to []int32) error {
			for i := range to {
				to[i] = int32(keys[0].(*array.Int64).Value(i)%(parts+1)) - 1
			}
			return nil
		}
		divided, err := spill.Partition(t.Context(), x.Input(t, mem, []int{1}, []int{0}), spill.Partitioning{Parts: parts, Of: of},
			spill.Options{Options: joiner.Options{Memory: mem, Budget: limit}, Disk: stores.disk, WorkingMemory: room})
		require.NoError(t, err)
		require.Zero(t, limit.Used())
		require.EqualValues(t, 1000, divided.Rows())
		divided.Retain()
		divided.Release()
		for part := range parts {
			in := divided.Input(part)
			require.Equal(t, []int{1}, in.Key)
			require.Equal(t, []int{0}, in.Columns)
			var want []string
			var files []string
			for i, row := range x.Rows {
				if key, _ := strconv.Atoi(row[1]); key%(parts+1)-1 == part {
					want = append(want, strings.Join(row, " "))
					files = append(files, fmt.Sprintf("s-%d.parquet", i/97))
				}
			}
			r, err := in.Open(t.Context())
			require.NoError(t, err)
			var got []string
			for r.Next() {
				require.EqualValues(t, 5, r.RecordBatch().NumCols())
				for _, line := range joinertest.Text(t, r.RecordBatch()) {
					got = append(got, line[:strings.LastIndex(line, " ")])
				}
			}
			require.NoError(t, r.Err())
			r.Release()
			require.Equal(t, want, got)
			require.EqualValues(t, len(want), divided.Len(part))
			for i, name := range files {
				if i%50 == 0 {
					require.Equal(t, name, in.File(int64(i)))
				}
			}
		}
		divided.Release()
		require.Zero(t, limit.Used())
		require.Zero(t, stores.open)
	}
	t.Run("no such part", func(t *testing.T) {
		t.Parallel()
		mem := joinertest.Checked(t)
		stores := &shelf{mem: mem}
		of := func(_ []arrow.Array, to []int32) error { to[0] = 2; return nil }
		_, err := spill.Partition(t.Context(), x.Input(t, mem, []int{1}, nil), spill.Partitioning{Parts: 2, Of: of}, spill.Options{Options: joiner.Options{Memory: mem}, Disk: stores.disk})
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.Zero(t, stores.open)
	})
}

// TestDivideLeavesMemoryToOthers: rows that are not yet written take less memory if many
// streams are open, and nearly none if a stream waits for memory.
//
// spec: join-51
func TestDivideLeavesMemoryToOthers(t *testing.T) {
	t.Parallel()
	x := skewed(rand.New(rand.NewPCG(5, 9)), 0, 3000, joiner.Rule{}, joiner.BuildSpec{}).Staging[0].Table
	peak := func(t *testing.T, streams int, wait bool) int64 {
		t.Helper()
		mem, limit := joinertest.Checked(t), budget.New(1<<20)
		stores := &shelf{mem: mem}
		for range streams {
			_, stream := limit.Enter(t.Context(), "")
			defer stream.Release()
		}
		if wait {
			ctx, cancel := context.WithCancel(t.Context())
			ctx, stream := limit.Enter(ctx, "")
			held, err := limit.Reserve("what waits", 1)
			require.NoError(t, err)
			ended := make(chan error)
			go func() { ended <- held.GrowWait(ctx, 1<<20) }()
			synctest.Wait()
			require.True(t, limit.Waited())
			defer func() {
				cancel()
				require.Error(t, <-ended)
				held.Release()
				stream.Release()
				require.Zero(t, limit.Used())
			}()
		}
		of := func(_ []arrow.Array, to []int32) error { clear(to); return nil }
		divided, err := spill.Partition(t.Context(), x.Input(t, mem, []int{1}, []int{0}), spill.Partitioning{Parts: 1, Of: of},
			spill.Options{Options: joiner.Options{Memory: mem, Budget: limit}, Disk: stores.disk})
		require.NoError(t, err)
		require.EqualValues(t, 3000, divided.Rows())
		divided.Release()
		return limit.Peak()
	}
	synctest.Test(t, func(t *testing.T) {
		alone := peak(t, 1, false)
		require.Less(t, peak(t, 32, false), alone/2)
		require.Less(t, peak(t, 1, true), alone/2)
	})
}

// TestJoinsCountTheirOwnBytes: each of two joins with one build side reports the bytes that it
// wrote itself, also if they write in turns.
func TestJoinsCountTheirOwnBytes(t *testing.T) {
	t.Parallel()
	w := skewed(rand.New(rand.NewPCG(5, 11)), 300, 300, joiner.Rule{Duplicates: rule.DuplicatesFirst}, joiner.BuildSpec{})
	s, stores := w.Staging[0], &shelf{mem: joinertest.Checked(t)}
	opts := joiner.Options{Memory: stores.mem, Budget: budget.New(1 << 30)}
	sliced, err := spill.Slice(t.Context(), s.Input(t, opts.Memory, s.Key, s.Columns), s.Spec,
		spill.Options{Options: opts, Disk: stores.disk, WorkingMemory: 3000, ExpectedBytes: 40 << 10})
	require.NoError(t, err)
	rows := sliced.Bytes()
	require.Positive(t, rows)
	written := make([]int64, 3)
	open := func(number int) *joiner.Reader {
		p := joiner.Probe{Rule: s.Rule, Key: s.At, Columns: []arrow.Field{s.Fields[0], s.Fields[3]}}
		p.BuildSide = func(context.Context) (joiner.Probeable, error) {
			return sliced.ProbedBy(again(t, w, opts.Memory, s), func(bytes int64) { written[number] += bytes }), nil
		}
		r, err := joiner.Join(t.Context(), w.Training.Input(t, opts.Memory, nil, w.Columns), []joiner.Probe{p}, opts)
		require.NoError(t, err)
		return r
	}
	read := func(readers ...*joiner.Reader) {
		for more := true; more; {
			more = false
			for _, r := range readers {
				more = r.Next() || more
			}
		}
		for _, r := range readers {
			require.NoError(t, r.Err())
			r.Release()
		}
	}
	read(open(0))
	read(open(1), open(2))
	require.Positive(t, written[0])
	require.Equal(t, []int64{written[0], written[0]}, written[1:])
	require.Equal(t, rows, sliced.Bytes(), "its own are those of its rows")
	sliced.Release()
	require.Zero(t, opts.Budget.Used())
	require.Zero(t, stores.open)
}
