package extsort_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/partition"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a budget and a disk, and the memory of rows.
type place struct {
	budget *budget.Budget
	spool  *spool.Spool
	memory *memory.CheckedAllocator
	opts   extsort.Options
}

// newPlace makes a place with a budget and a limit of the disk; 0 is unlimited.
func newPlace(t *testing.T, limit, disk int64) *place {
	t.Helper()
	p := &place{memory: memory.NewCheckedAllocator(batch.Default())}
	if limit > 0 {
		p.budget = budget.New(limit)
	}
	var err error
	p.spool, err = spool.Open(spool.Options{Folder: t.TempDir(), Limit: disk, Memory: p.memory})
	require.NoError(t, err)
	p.opts = extsort.Options{Budget: p.budget, Memory: p.memory, Disk: func(what string) (extsort.RunStore, error) { return p.spool.Create(what) }}
	return p
}

// requireEmpty checks that nothing is held.
func (p *place) requireEmpty(t *testing.T) {
	t.Helper()
	p.memory.AssertSize(t, 0)
	require.Zero(t, p.budget.Used())
	require.Zero(t, p.spool.Stats().Used)
	require.Zero(t, p.spool.Stats().Files)
}

// add adds batches and releases them.
func add(ctx context.Context, s *extsort.Sorter, batches []arrow.RecordBatch) error {
	var err error
	for _, b := range batches {
		if err == nil {
			err = s.Add(ctx, b)
		}
		b.Release()
	}
	return err
}

// requireSorted compares a result with the expected partitions.
func requireSorted(t *testing.T, want []*expected, tab *table, got *extsort.Sorted, limit int64) {
	t.Helper()
	require.Len(t, got.Partitions(), len(want))
	for i, e := range want {
		require.Equal(t, extsort.Partition{Values: e.values, Rows: int64(len(e.rows))}, got.Partitions()[i])
		rows, err := got.Open(t.Context(), i)
		require.NoError(t, err)
		at := 0
		for rows.Next() {
			b := rows.RecordBatch()
			require.True(t, b.Schema().Equal(got.Schema()))
			if limit > 0 && b.NumRows() > 1 {
				require.LessOrEqual(t, batch.Size(b), limit+b.NumCols()*4*64, "buffers are aligned to 64 bytes")
			}
			for row := range int(b.NumRows()) {
				var r record
				for _, c := range b.Columns() {
					r = append(r, valueOf(c, row))
				}
				if want := e.rows[at].text(); want != r.text() {
					t.Fatalf("partition %v, row %d is %s, not %s", e.values, at, r.text(), want)
				}
				at++
			}
		}
		require.NoError(t, rows.Err())
		rows.Release()
		require.Equal(t, len(e.rows), at)
	}
}

func all(record) bool { return true }

// TestRowsAreThoseOfAStableSort compares random tables with the oracle: cut into any batches, in any memory,
// with any number of threads.
//
// spec: stage-1, stage-2, stage-3, stage-6, stage-7, stage-8, stage-9, stage-10, stage-12, stage-14, stage-16
func TestRowsAreThoseOfAStableSort(t *testing.T) {
	t.Parallel()
	merged, inMemory, partitions := 0, 0, 0
	for seed := range uint64(tables) {
		r := rand.New(rand.NewPCG(seed, 3))
		tab := newTable(r, r.IntN(1000)+int(seed%3)*2000)
		want := tab.sorted(all)
		nulls := int64(0)
		for _, row := range tab.rows {
			if row[0] == nil {
				nulls++
			}
		}
		for _, working := range []int64{0, 1 << 20, 200_000, 100_000} {
			p := newPlace(t, 4*working, 0)
			o := p.opts
			o.WorkingMemory, o.Threads, o.BatchBytes = working, 1+r.IntN(3), int64(1000+r.IntN(50_000))
			s, err := extsort.New(tab.schema, tab.layout, o)
			require.NoError(t, err)
			require.NoError(t, add(t.Context(), s, tab.batches(r, 1+r.IntN(1000))))
			got, err := s.Finish(t.Context())
			require.NoError(t, err)
			requireSorted(t, want, tab, got, o.BatchBytes)
			c := got.Counts()
			require.Equal(t, int64(len(tab.rows)), c.Rows)
			require.Equal(t, nulls, c.NullKeys)
			require.Zero(t, c.Dropped)
			require.Equal(t, p.spool.Stats().Written, c.BytesSpilled)
			if c.Merges > 0 {
				merged++
			}
			if c.Runs == 0 {
				inMemory++
			}
			partitions = max(partitions, len(want))
			got.Release()
			s.Release()
			p.requireEmpty(t)
		}
	}
	require.Positive(t, merged, "no case merged runs")
	require.Positive(t, inMemory, "no case had all rows in memory")
	require.Greater(t, partitions, 5)
}

// evenKeys is a set of the even keys.
type evenKeys struct{}

func (evenKeys) Contains(_ context.Context, keys arrow.RecordBatch, found []bool) error {
	column := keys.Column(0).(*array.Int64)
	for i := range found {
		found[i] = column.Value(i)%2 == 0 // nulls, too
	}
	return nil
}

// TestRowsWithOtherKeysAreDropped compares with the oracle without these rows.
//
// spec: stage-15, stage-16
func TestRowsWithOtherKeysAreDropped(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 4))
		tab := newTable(r, 2000)
		even := func(row record) bool {
			id, ok := row[0].(int64)
			return ok && id%2 == 0
		}
		p := newPlace(t, 1<<20, 0)
		o := p.opts
		o.WorkingMemory, o.Keys = 150_000, evenKeys{}
		s, err := extsort.New(tab.schema, tab.layout, o)
		require.NoError(t, err)
		require.NoError(t, add(t.Context(), s, tab.batches(r, 300)))
		got, err := s.Finish(t.Context())
		require.NoError(t, err)
		want := tab.sorted(even)
		requireSorted(t, want, tab, got, 0)
		kept := 0
		for _, e := range want {
			kept += len(e.rows)
		}
		require.Equal(t, int64(len(tab.rows)-kept), got.Counts().Dropped)
		require.Positive(t, got.Counts().NullKeys)
		got.Release()
		p.requireEmpty(t)
	}
}

// failingKeys fails.
type failingKeys struct{ err error }

func (f failingKeys) Contains(context.Context, arrow.RecordBatch, []bool) error { return f.err }

// TestNothingIsLeftAfterAnError ends a sort at every point: when a batch is added, when it is finished, and while
// rows are read.
//
// spec: stage-12, stage-13
func TestNothingIsLeftAfterAnError(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 5))
	tab := newTable(r, 3000)
	start := func(p *place) *extsort.Sorter {
		o := p.opts
		o.WorkingMemory, o.Threads = 150_000, 2
		s, err := extsort.New(tab.schema, tab.layout, o)
		require.NoError(t, err)
		return s
	}
	t.Run("without an end", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1<<20, 0)
		s := start(p)
		require.NoError(t, add(t.Context(), s, tab.batches(rand.New(rand.NewPCG(1, 1)), 100)))
		s.Release()
		s.Release()
		p.requireEmpty(t)
		_, err := s.Finish(t.Context())
		require.Equal(t, fault.Internal, fault.KindOf(err))
	})
	t.Run("with a full disk", func(t *testing.T) {
		t.Parallel()
		sortOn := func(p *place) error {
			s := start(p)
			if err := add(t.Context(), s, tab.batches(rand.New(rand.NewPCG(1, 1)), 100)); err != nil {
				return err
			}
			got, err := s.Finish(t.Context())
			if err == nil {
				require.Positive(t, got.Counts().Merges)
				got.Release()
			}
			return err
		}
		p := newPlace(t, 1<<20, 0)
		require.NoError(t, sortOn(p))
		const steps = 20
		for i := range int64(steps) { // the last ones are full while runs are merged
			limited := newPlace(t, 1<<20, 1+p.spool.Stats().Peak*i/steps)
			err := sortOn(limited)
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			require.NotEmpty(t, fault.As(err).Remedy)
			limited.requireEmpty(t)
		}
	})
	t.Run("with a budget that is too small", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 50_000, 0)
		err := add(t.Context(), start(p), tab.batches(rand.New(rand.NewPCG(1, 1)), 100))
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		p.requireEmpty(t)
	})
	t.Run("of the set of keys", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1<<20, 0)
		want := errors.New("the index is gone")
		o := p.opts
		o.Keys = failingKeys{want}
		s, err := extsort.New(tab.schema, tab.layout, o)
		require.NoError(t, err)
		require.ErrorIs(t, add(t.Context(), s, tab.batches(rand.New(rand.NewPCG(1, 1)), 100)), want)
		p.requireEmpty(t)
	})
	t.Run("after a cancellation", func(t *testing.T) {
		t.Parallel()
		for _, after := range []int{0, 1, 20, 60, 200} {
			p := newPlace(t, 1<<20, 0)
			s := start(p)
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := errors.New("the client is gone")
			for i, b := range tab.batches(rand.New(rand.NewPCG(1, 1)), 100) {
				if i == after {
					cancel(gone)
				}
				if i <= after {
					err := s.Add(ctx, b)
					require.Equal(t, i == after && b.NumRows() > 0, errors.Is(err, gone), "%v", err)
				}
				b.Release()
			}
			cancel(gone)
			if _, err := s.Finish(ctx); err != nil {
				s.Release()
			}
			p.requireEmpty(t)
		}
	})
	t.Run("while rows are read", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, 1<<20, 0)
		s := start(p)
		require.NoError(t, add(t.Context(), s, tab.batches(rand.New(rand.NewPCG(1, 1)), 100)))
		got, err := s.Finish(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		rows, err := got.Open(ctx, 0)
		require.NoError(t, err)
		require.True(t, rows.Next())
		cancel()
		require.False(t, rows.Next())
		require.ErrorIs(t, rows.Err(), context.Canceled)
		rows.Release()
		got.Release()
		p.requireEmpty(t)
	})
}

// TestPartitionsAreReadAtOnce reads all partitions in goroutines.
func TestPartitionsAreReadAtOnce(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	tab := newTable(r, 4000)
	tab.layout.Partition = []partition.By{{Column: 0, Transform: catalog.Transform{Kind: catalog.Bucket, N: 5}}}
	for _, working := range []int64{0, 200_000} {
		p := newPlace(t, 4*working, 0)
		o := p.opts
		o.WorkingMemory, o.Readers = working, 6
		s, err := extsort.New(tab.schema, tab.layout, o)
		require.NoError(t, err)
		require.NoError(t, add(t.Context(), s, tab.batches(r, 100)))
		got, err := s.Finish(t.Context())
		require.NoError(t, err)
		var group sync.WaitGroup
		counts := make([]int64, len(got.Partitions()))
		for i := range counts {
			group.Go(func() {
				rows, err := got.Open(t.Context(), i)
				if err != nil {
					t.Error(err)
					return
				}
				defer rows.Release()
				for rows.Next() {
					counts[i] += rows.RecordBatch().NumRows()
				}
				if rows.Err() != nil {
					t.Error(rows.Err())
				}
			})
		}
		group.Wait()
		for i, part := range got.Partitions() {
			require.Equal(t, part.Rows, counts[i])
		}
		got.Release()
		p.requireEmpty(t)
	}
}

// TestManyPartitionsAreRefused has more partitions than the limit.
//
// spec: stage-13
func TestManyPartitionsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 8<<20, 0)
	tab := newTable(rand.New(rand.NewPCG(7, 7)), 2000)
	tab.layout.Partition = []partition.By{{Column: 0, Transform: catalog.Transform{Kind: catalog.Identity}}}
	o := p.opts
	o.MaxPartitions = 20
	s, err := extsort.New(tab.schema, tab.layout, o)
	require.NoError(t, err)
	err = add(t.Context(), s, tab.batches(rand.New(rand.NewPCG(1, 1)), 100))
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "more than 20 partitions")
	p.requireEmpty(t)
}

// TestLayoutsThatDoNotFitTheSchemaAreRefused checks what New refuses.
//
// spec: stage-5, stage-21
func TestLayoutsThatDoNotFitTheSchemaAreRefused(t *testing.T) {
	t.Parallel()
	list := arrow.NewSchema([]arrow.Field{{Name: "h", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)}}, nil)
	for _, c := range []struct {
		schema *arrow.Schema
		layout extsort.Layout
		kind   fault.Kind
	}{
		{list, extsort.Layout{Key: []int{0}}, fault.Invalid},
		{list, extsort.Layout{Partition: []partition.By{{Transform: catalog.Transform{Kind: catalog.Identity}}}}, fault.Invalid},
		{list, extsort.Layout{Key: []int{1}}, fault.Internal},
		{list, extsort.Layout{Sort: []extsort.SortColumn{{Column: -1}}}, fault.Internal},
		{arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Uint8}}, nil), extsort.Layout{}, fault.Invalid},
	} {
		_, err := extsort.New(c.schema, c.layout, extsort.Options{})
		require.Equal(t, c.kind, fault.KindOf(err))
	}
}

// TestNoRowsAreNoPartitions ends a sort without rows.
func TestNoRowsAreNoPartitions(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 8<<20, 0)
	tab := newTable(rand.New(rand.NewPCG(7, 7)), 0)
	s, err := extsort.New(tab.schema, tab.layout, p.opts)
	require.NoError(t, err)
	got, err := s.Finish(t.Context())
	require.NoError(t, err)
	require.Empty(t, got.Partitions())
	require.Zero(t, got.Counts())
	got.Release()
	p.requireEmpty(t)
}
