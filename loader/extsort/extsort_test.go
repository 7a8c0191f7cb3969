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
	p := &place{memory: memory.NewCheckedAllocator(batch.NewPoison(memory.NewGoAllocator()))}
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
			require.Equal(t, at > 0 && tab.compare(e.rows[at-1], e.rows[at]) == 0, rows.SameKey(), "row %d", at)
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

// strict is an allocator that fails if more is allocated than the budget has reserved.
type strict struct {
	memory.Allocator
	of *budget.Budget

	mu      sync.Mutex
	used    int64
	excess  int64 // the maximum of what was not reserved
	maximum int64
}

func (s *strict) change(by int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += by
	s.maximum = max(s.maximum, s.used)
	s.excess = max(s.excess, s.used-s.of.Used())
}

func (s *strict) Allocate(size int) []byte {
	s.change(int64(size))
	return s.Allocator.Allocate(size)
}

func (s *strict) Reallocate(size int, b []byte) []byte {
	s.change(int64(size - len(b)))
	return s.Allocator.Reallocate(size, b)
}

func (s *strict) Free(b []byte) {
	s.change(-int64(len(b)))
	s.Allocator.Free(b)
}

// TestMemoryIsReservedBeforeItIsHeld sorts 64 MB in 2 MB.
//
// spec: stage-11, stage-13
func TestMemoryIsReservedBeforeItIsHeld(t *testing.T) {
	t.Parallel()
	const rows, items, limit = bigRows, 50, 2 << 20
	held := budget.New(limit)
	mem := &strict{Allocator: memory.NewGoAllocator(), of: held}
	disk, err := spool.Open(spool.Options{Folder: t.TempDir(), Memory: mem})
	require.NoError(t, err)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: arrow.PrimitiveTypes.Int64}, {Name: "history", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)}, {Name: "country", Type: arrow.BinaryTypes.String},
	}, nil)
	layout := extsort.Layout{Key: []int{0}, Partition: []partition.By{{Column: 0, Transform: catalog.Transform{Kind: catalog.Bucket, N: 8}}}}
	s, err := extsort.New(schema, layout, extsort.Options{
		Budget: held, Memory: mem, Disk: func(what string) (extsort.RunStore, error) { return disk.Create(what) }, WorkingMemory: limit / 2, Threads: 2,
	})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 1))
	sum := int64(0)
	for added := 0; added < rows; {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for range min(1000+r.IntN(9000), rows-added) {
			user := r.Int64N(rows / 10)
			sum += user
			b.Field(0).(*array.Int64Builder).Append(user)
			b.Field(1).(*array.ListBuilder).Append(true)
			for range items {
				b.Field(1).(*array.ListBuilder).ValueBuilder().(*array.Int64Builder).Append(user)
			}
			b.Field(2).(*array.StringBuilder).Append("somewhere")
			added++
		}
		one := b.NewRecordBatch()
		b.Release()
		require.NoError(t, s.Add(t.Context(), one))
		one.Release()
	}
	got, err := s.Finish(t.Context())
	require.NoError(t, err)
	require.Greater(t, got.Counts().Runs, int64(rows*items*8/limit))
	require.Len(t, got.Partitions(), 8)
	count := int64(0)
	for i := range got.Partitions() {
		rows, err := got.Open(t.Context(), i)
		require.NoError(t, err)
		last := int64(-1)
		for rows.Next() {
			users := rows.RecordBatch().Column(0).(*array.Int64)
			histories := rows.RecordBatch().Column(1).(*array.List)
			for row, user := range users.Int64Values() {
				require.LessOrEqual(t, last, user)
				from, to := histories.ValueOffsets(row)
				require.Equal(t, int64(items), to-from)
				require.Equal(t, user, histories.ListValues().(*array.Int64).Value(int(from)))
				last = user
				sum -= user
				count++
			}
		}
		require.NoError(t, rows.Err())
		rows.Release()
	}
	require.Equal(t, int64(rows), count)
	require.Zero(t, sum, "the keys are the same")
	require.LessOrEqual(t, held.Peak(), int64(limit))
	require.LessOrEqual(t, mem.excess, int64(0), "memory was allocated that was not reserved; at most %d bytes were held", mem.maximum)
	got.Release()
	require.Zero(t, held.Used())
	require.Zero(t, mem.used)
	require.Zero(t, disk.Stats().Used)
}

// TestALongRowIsABatch sorts rows that are longer than any share of the memory.
//
// spec: stage-11, stage-14
func TestALongRowIsABatch(t *testing.T) {
	t.Parallel()
	for _, of := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.StringView} {
		p := newPlace(t, 8<<20, 0)
		o := p.opts
		o.WorkingMemory = 256 << 10
		schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: of}}, nil)
		s, err := extsort.New(schema, extsort.Layout{Key: []int{0}}, o)
		require.NoError(t, err)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		const rows = 20
		for i := range rows {
			b.Field(0).(*array.Int64Builder).Append(int64(i * 7 % rows))
			b.Field(1).(array.StringLikeBuilder).Append(string(make([]byte, 300<<10)))
		}
		one := b.NewRecordBatch()
		b.Release()
		require.NoError(t, s.Add(t.Context(), one))
		one.Release()
		got, err := s.Finish(t.Context())
		require.NoError(t, err)
		read, err := got.Open(t.Context(), 0)
		require.NoError(t, err)
		for i := range rows {
			require.True(t, read.Next(), "%v", read.Err())
			require.Equal(t, int64(1), read.RecordBatch().NumRows())
			require.Equal(t, int64(i), read.RecordBatch().Column(0).(*array.Int64).Value(0))
		}
		require.False(t, read.Next())
		require.NoError(t, read.Err())
		read.Release()
		got.Release()
		p.requireEmpty(t)
	}
}

// TestLongRowsAmongShortOnesKeepBatchesSmall sorts rows whose size is far from the average, in memory and on disk.
//
// spec: stage-11, stage-14
func TestLongRowsAmongShortOnesKeepBatchesSmall(t *testing.T) {
	t.Parallel()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String}}, nil)
	const rows, long, limit = 6000, 20, 10_000
	for _, working := range []int64{0, 300_000} {
		p := newPlace(t, 0, 0)
		o := p.opts
		o.WorkingMemory, o.BatchBytes = working, limit
		s, err := extsort.New(schema, extsort.Layout{Key: []int{0}}, o)
		require.NoError(t, err)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range rows {
			id := i * 7919 % rows
			b.Field(0).(*array.Int64Builder).Append(int64(id))
			b.Field(1).(*array.StringBuilder).Append(string(make([]byte, 3+id/(rows-long)*8000)))
		}
		one := b.NewRecordBatch()
		b.Release()
		require.NoError(t, s.Add(t.Context(), one))
		one.Release()
		got, err := s.Finish(t.Context())
		require.NoError(t, err)
		require.Equal(t, working > 0, got.Counts().Runs > 0)
		read, err := got.Open(t.Context(), 0)
		require.NoError(t, err)
		count, batches := int64(0), 0
		for read.Next() {
			count += read.RecordBatch().NumRows()
			batches++
			require.LessOrEqual(t, batch.Size(read.RecordBatch()), int64(limit+1000))
		}
		require.NoError(t, read.Err())
		require.Equal(t, int64(rows), count)
		require.Less(t, batches, 100)
		read.Release()
		got.Release()
		p.requireEmpty(t)
	}
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
