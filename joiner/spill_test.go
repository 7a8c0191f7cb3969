package joiner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner/rule"
)

// disk returns where a test spills, and the spool that it is.
func disk(t testing.TB, mem memory.Allocator) (func(string) (Store, error), *spool.Spool) {
	place, err := spool.Open(spool.Options{Place: t.TempDir(), Memory: mem})
	require.NoError(t, err)
	return func(what string) (Store, error) { return place.Create(what) }, place
}

// shelf makes stores that are lists in memory, and counts them.
type shelf struct {
	mem  memory.Allocator
	mu   sync.Mutex
	open int
	made int
	left int   // appends that succeed before err, if it is set
	err  error //
}

func (s *shelf) disk(string) (Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.made++
	return &listed{shelf: s}, nil
}

type listed struct {
	*shelf
	list  []arrow.RecordBatch
	bytes int64
}

func (l *listed) Append(b arrow.RecordBatch) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		if l.left == 0 {
			return 0, l.err
		}
		l.left--
	}
	kept, err := duplicate(b, l.mem)
	if err != nil {
		return 0, err
	}
	l.list = append(l.list, kept)
	l.bytes += batch.Size(kept)
	return len(l.list) - 1, nil
}

func duplicate(b arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	at := make([]int32, b.NumRows())
	for i := range at {
		at[i] = int32(i)
	}
	segments := make([][]batch.Segment, b.NumCols())
	for i, c := range b.Columns() {
		segments[i] = []batch.Segment{{Values: c, Indices: at}}
	}
	return gatherRows(b.Schema(), segments, 0, len(at), mem)
}

func (l *listed) Read(number int) (arrow.RecordBatch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return duplicate(l.list[number], l.mem)
}

func (l *listed) Size(number int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return batch.Size(l.list[number])
}

func (l *listed) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

func (l *listed) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.list {
		b.Release()
	}
	l.open--
}

// probes makes probes whose sides lie on disk.
func (w world) probes(t *testing.T, opts Options, how Spilling) []Probe {
	var probes []Probe
	for _, s := range w.sides {
		var columns []arrow.Field
		for _, at := range s.columns {
			columns = append(columns, s.fields[at])
		}
		probes = append(probes, Probe{
			Rule: s.rule, Key: s.at, Columns: columns, Matched: s.spec.Matched,
			BuildSide: func(ctx context.Context) (Probeable, error) {
				side, err := Spill(ctx, s.input(t, opts.Memory, s.key, s.columns), s.spec, opts, how)
				if err != nil {
					return nil, err
				}
				defer side.Release()
				require.EqualValues(t, len(s.rows), side.Rows())
				return side.ProbedBy(w.again(t, opts.Memory, s)), nil
			},
		})
	}
	return probes
}

// again gives the training rows a second time.
func (w world) again(t *testing.T, mem memory.Allocator, s asked) Input {
	rows := w.training.input(t, mem, s.at, nil)
	if s.rule.Time != nil {
		rows.Columns = []int{s.rule.Time.Column}
	}
	return rows
}

// spilled joins a world whose sides lie on disk.
func (w world) spilled(t *testing.T, how Spilling) ([]string, []Counts, error) {
	limit := budget.New(1 << 30)
	opts := Options{Memory: checked(t), Budget: limit}
	stores := &shelf{mem: opts.Memory}
	if how.Disk == nil {
		how.Disk = stores.disk
	}
	r, err := Join(t.Context(), w.training.input(t, opts.Memory, nil, w.columns), w.probes(t, opts, how), opts)
	require.NoError(t, err)
	out, counts, err := drain(t, r)
	require.Zero(t, limit.Used())
	require.Zero(t, stores.open)
	return out, counts, err
}

// TestSpilledAgrees joins sides from disk as they are joined in memory, with
// room for a slice and with room for a row. PENSTOCK_LONG=1 asks for many cases.
//
// spec: join-50, join-52
func TestSpilledAgrees(t *testing.T) {
	all, times := families(t), clocks(t)
	seeds := uint64(80)
	if os.Getenv("PENSTOCK_LONG") == "1" {
		seeds = 2000
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 8))
		w := randomWorld(r, all, times)
		how := Spilling{Memory: oneOf(r, []int64{1, 1, 3000, 20_000, 1 << 20}), Bytes: oneOf(r, []int64{0, 1, 1, 4000})}
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			want := w.run(t, -1)
			var place *spool.Spool
			if seed%8 == 0 {
				how.Disk, place = disk(t, memory.NewGoAllocator())
			}
			got, counts, err := w.spilled(t, how)
			if place != nil {
				require.Zero(t, place.Stats().Used)
				require.Zero(t, place.Stats().Files)
			}
			if want.err != nil {
				require.EqualError(t, err, want.err.Error())
				return
			}
			require.NoError(t, err)
			require.Equal(t, want.rows, got)
			require.Equal(t, want.counts, counts)
		})
		require.True(t, ok)
	}
}

// skewed is a world of many rows, half of them of one key on either side.
func skewed(r *rand.Rand, training, staging int, rule Rule, spec BuildSpec) world {
	c := []arrow.Field{field("id", arrow.PrimitiveTypes.Int64), field("k", arrow.PrimitiveTypes.Int64), field("t", arrow.PrimitiveTypes.Int64), field("word", arrow.BinaryTypes.String)}
	make := func(name string, n int) table {
		x := table{name: name, fields: c}
		for i := range n {
			key := "7"
			if r.IntN(2) == 0 {
				key = strconv.Itoa(r.IntN(n))
			}
			x.rows = append(x.rows, []string{strconv.Itoa(i), key, strconv.Itoa(r.IntN(50)), strings.Repeat("w", r.IntN(20))})
		}
		for n > 97 {
			x.cuts, n = append(x.cuts, 97), n-97
		}
		return x
	}
	side := asked{table: make("s", staging), key: []int{1}, at: []int{1}, columns: []int{0, 3}, rule: rule, spec: spec}
	side.rule.Name, side.spec.Name = "s", "s"
	return world{training: make("training", training), columns: []int{0}, sides: []asked{side}}
}

// TestSpilledSkew joins sides in which one key has half of the rows, in memory
// for few of them.
//
// spec: join-50, join-51
func TestSpilledSkew(t *testing.T) {
	t.Parallel()
	order := []Order{{Column: 3}, {Column: 2, Descending: true}}
	for name, c := range map[string]struct {
		rule Rule
		spec BuildSpec
		rows int // of staging; 0: many
	}{
		"first":        {rule: Rule{Duplicates: rule.DuplicatesFirst}},
		"last ordered": {rule: Rule{Duplicates: rule.DuplicatesLast}, spec: BuildSpec{OrderBy: order, Matched: "matched"}},
		"error":        {rule: Rule{Duplicates: rule.DuplicatesError}},
		"anti":         {rule: Rule{Kind: rule.Anti}},
		"time": {
			rule: Rule{Duplicates: rule.DuplicatesLast, Time: &TimeRule{Column: 2, Tolerance: 30}},
			spec: BuildSpec{Time: new(2), OrderBy: order},
		},
		"all":         {rule: Rule{Duplicates: rule.DuplicatesAll, Kind: rule.Inner}, rows: 200},
		"all ordered": {rule: Rule{Duplicates: rule.DuplicatesAll}, spec: BuildSpec{OrderBy: order, Matched: "matched"}, rows: 200},
		"all in time": {
			rule: Rule{Duplicates: rule.DuplicatesAll, Time: &TimeRule{Column: 2, Tolerance: 9, Exact: true}},
			spec: BuildSpec{Time: new(2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := c.rows
			if rows == 0 {
				rows = 500
			}
			w := skewed(rand.New(rand.NewPCG(5, 5)), rows, rows, c.rule, c.spec)
			want := w.run(t, -1)
			for _, memory := range []int64{8 << 10, 1 << 20} {
				got, counts, err := w.spilled(t, Spilling{Memory: memory, Bytes: 40 << 10})
				if want.err != nil {
					require.EqualError(t, err, want.err.Error())
					continue
				}
				require.NoError(t, err)
				require.True(t, slices.Equal(want.rows, got), "rows differ with %d bytes of memory", memory)
				require.Equal(t, want.counts, counts)
			}
		})
	}
}

// TestSpilledMemory joins a side of many times the budget.
//
// spec: join-51
func TestSpilledMemory(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]Rule{
		"first": {Duplicates: rule.DuplicatesFirst}, "all": {Duplicates: rule.DuplicatesAll, Kind: rule.Inner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := skewed(rand.New(rand.NewPCG(5, 6)), 1500, 30_000, rule, BuildSpec{})
			w.training.rows = w.training.rows[:97*2]
			w.training.cuts = []int{97}
			mem, limit := checked(t), budget.New(5<<18)
			opts := Options{Memory: mem, Budget: limit}
			s := w.sides[0]
			_, err := Build(t.Context(), s.input(t, mem, s.key, s.columns), s.spec, opts)
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			stores := &shelf{mem: mem}
			r, err := Join(t.Context(), w.training.input(t, mem, nil, w.columns), w.probes(t, opts, Spilling{Disk: stores.disk}), opts)
			require.NoError(t, err)
			rows := int64(0)
			for r.Next() {
				rows += r.RecordBatch().NumRows()
			}
			require.NoError(t, r.Err())
			counts := r.Counts()[0]
			r.Release()
			require.Positive(t, counts.Matched)
			if rule.multiplies() {
				require.Greater(t, rows, int64(400_000))
			} else {
				require.Equal(t, counts.Rows, rows)
			}
			require.Zero(t, limit.Used())
			require.Zero(t, stores.open)
		})
	}
}

// TestSpillFails lets every write fail, one after the other, and readings of
// training rows that come otherwise.
//
// spec: join-52, join-53, join-54
func TestSpillFails(t *testing.T) {
	t.Parallel()
	for _, rule := range []Rule{{Duplicates: rule.DuplicatesFirst}, {Duplicates: rule.DuplicatesAll}} {
		w := skewed(rand.New(rand.NewPCG(5, 7)), 100, 100, rule, BuildSpec{OrderBy: []Order{{Column: 3}}})
		full := fault.New(fault.Unavailable, "the disk is full")
		for writes := 0; ; writes += 1 + writes/2 {
			mem, limit := checked(t), budget.New(1<<30)
			opts := Options{Memory: mem, Budget: limit}
			stores := &shelf{mem: mem, left: writes, err: full}
			r, err := Join(t.Context(), w.training.input(t, mem, nil, w.columns), w.probes(t, opts, Spilling{Disk: stores.disk, Memory: 2000, Bytes: 1}), opts)
			require.NoError(t, err)
			_, _, err = drain(t, r)
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
		w := skewed(rand.New(rand.NewPCG(5, 7)), 30, 300, Rule{Duplicates: rule.DuplicatesFirst}, BuildSpec{})
		opts := Options{Memory: checked(t), Budget: budget.New(1 << 30)}
		stores := &shelf{mem: opts.Memory}
		probes := w.probes(t, opts, Spilling{Disk: stores.disk})
		w.training.rows = slices.Clone(w.training.rows)
		slices.Reverse(w.training.rows)
		r, err := Join(t.Context(), w.training.input(t, opts.Memory, nil, w.columns), probes, opts)
		require.NoError(t, err)
		_, _, err = drain(t, r)
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, "came otherwise")
		require.Zero(t, opts.Budget.Used())
		require.Zero(t, stores.open)
	})
	t.Run("custom", func(t *testing.T) {
		t.Parallel()
		w := skewed(rand.New(rand.NewPCG(5, 7)), 30, 30, Rule{}, BuildSpec{})
		s := w.sides[0]
		s.spec.Custom = nearest{}
		_, err := Spill(t.Context(), s.input(t, checked(t), s.key, s.columns), s.spec, Options{}, Spilling{})
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.ErrorContains(t, err, "custom")
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		w := skewed(rand.New(rand.NewPCG(5, 7)), 300, 300, Rule{Duplicates: rule.DuplicatesFirst}, BuildSpec{})
		opts := Options{Memory: checked(t), Budget: budget.New(1 << 30)}
		stores := &shelf{mem: opts.Memory}
		ctx, cancel := context.WithCancel(t.Context())
		w.sides[0].before = func(batch int) {
			if batch == 2 {
				cancel()
			}
		}
		s := w.sides[0]
		_, err := Spill(ctx, s.input(t, opts.Memory, s.key, s.columns), s.spec, opts, Spilling{Disk: stores.disk})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, opts.Budget.Used())
		require.Zero(t, stores.open)
	})
}

// TestDivide gives back the rows of each part, in order, with their files.
//
// spec: join-55
func TestDivide(t *testing.T) {
	t.Parallel()
	w := skewed(rand.New(rand.NewPCG(5, 9)), 0, 1000, Rule{}, BuildSpec{})
	x := w.sides[0].table
	for _, room := range []int64{1, 5000, 1 << 20} {
		mem, limit := checked(t), budget.New(1<<30)
		stores := &shelf{mem: mem}
		const parts = 5
		of := func(keys []arrow.Array, to []int32) error {
			for i := range to {
				to[i] = int32(keys[0].(*array.Int64).Value(i)%(parts+1)) - 1
			}
			return nil
		}
		divided, err := Divide(t.Context(), x.input(t, mem, []int{1}, []int{0}), Divider{parts, of}, Options{Memory: mem, Budget: limit}, Spilling{Disk: stores.disk, Memory: room})
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
			for i, row := range x.rows {
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
				for _, line := range text(t, r.RecordBatch()) {
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
		mem := checked(t)
		stores := &shelf{mem: mem}
		of := func(_ []arrow.Array, to []int32) error { to[0] = 2; return nil }
		_, err := Divide(t.Context(), x.input(t, mem, []int{1}, nil), Divider{2, of}, Options{Memory: mem}, Spilling{Disk: stores.disk})
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.Zero(t, stores.open)
	})
}
