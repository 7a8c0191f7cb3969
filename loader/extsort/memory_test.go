package extsort_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/partition"
)

// TestMemoryIsReservedBeforeItIsHeld sorts 64 MB in 2 MB.
//
// spec: stage-11, stage-13
func TestMemoryIsReservedBeforeItIsHeld(t *testing.T) {
	t.Parallel()
	const rows, items, limit = bigRows, 50, 2 << 20
	held := budget.New(limit)
	mem := &batchtest.Reserved{Allocator: batch.Default(), Of: held}
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
	excess, maximum := mem.Excess()
	require.LessOrEqual(t, excess, int64(0), "memory was allocated that was not reserved; at most %d bytes were held", maximum)
	got.Release()
	require.Zero(t, held.Used())
	require.Zero(t, mem.Used())
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

// TestSortersShareSpareMemory sorts rows that do not fit in the working memory while spare memory is free, and again
// while another result holds it.
//
// spec: stage-155
func TestSortersShareSpareMemory(t *testing.T) {
	t.Parallel()
	tab := newTable(rand.New(rand.NewPCG(3, 3)), 3000)
	p := newPlace(t, 0, 0)
	p.opts.WorkingMemory = 128 << 10
	run := func(spare *budget.Budget) *extsort.Sorted {
		o := p.opts
		o.Spare = spare
		s, err := extsort.New(tab.schema, tab.layout, o)
		require.NoError(t, err)
		require.NoError(t, add(t.Context(), s, tab.batches(rand.New(rand.NewPCG(1, 1)), 100)))
		got, err := s.Finish(t.Context())
		require.NoError(t, err)
		requireSorted(t, tab.sorted(all), tab, got, 0)
		return got
	}
	alone := run(nil)
	require.Positive(t, alone.Counts().Runs)
	alone.Release()

	spare := budget.New(4 << 20)
	kept := run(spare)
	require.Zero(t, kept.Counts().Runs, "all rows are in memory")
	held := spare.Used()
	require.Positive(t, held)
	full := budget.New(held + 1000)
	first, second := run(full), run(full)
	require.Zero(t, first.Counts().Runs)
	require.Positive(t, second.Counts().Runs, "the first result holds the spare memory")
	require.Equal(t, held, full.Used(), "rows on disk hold no spare memory")
	first.Release()
	third := run(full)
	require.Zero(t, third.Counts().Runs)
	for _, one := range []*extsort.Sorted{kept, second, third} {
		one.Release()
	}
	require.Zero(t, spare.Used())
	require.Zero(t, full.Used())
	p.requireEmpty(t)
}
