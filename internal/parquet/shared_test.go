package parquet_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store/errstore"
)

// tally is an allocator that counts allocations by their size.
type tally struct {
	memory.Allocator
	mu    sync.Mutex
	sizes map[int]int
}

func (c *tally) Allocate(size int) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[size]++
	return c.Allocator.Allocate(size)
}

// lender grants memory for shared bytes.
type lender struct {
	mu   sync.Mutex
	free int64 // admitted, and not kept
	kept int64
	lent int      // loans in flight
	all  []func() // drops
}

// loan is memory that a lender granted.
type loan struct {
	of    *lender
	bytes int64
}

func (e *loan) MarkInFlight() {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.of.lent++
}

func (e *loan) Release() {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	e.of.kept -= e.bytes
}

func (l *lender) admit(n, _ int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free += n
	return nil
}

func (l *lender) keep(n int64, drop func()) parquet.Spare {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free, l.kept, l.all = l.free-n, l.kept+n, append(l.all, drop)
	return &loan{of: l, bytes: n}
}

// drop takes back what can be.
func (l *lender) drop() {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, drop := range all {
		drop()
	}
}

// repetitive makes rows whose columns have dictionaries of different sizes.
func repetitive(t *testing.T) arrow.RecordBatch {
	t.Helper()
	return repeat(t, numbers(t, 0, 700), 10)
}

// sharingRead are options to read the rows [from, to) with shared bytes.
func (l *lender) sharingRead(shared *parquet.SharedChunks, from, to int64, scratch memory.Allocator) parquet.ReadOptions {
	return parquet.ReadOptions{
		Fields: ids(4), Schema: numbersSchema(), From: from, To: to, BatchRows: 100, Shared: shared,
		Scratch: scratch, Admit: l.admit, Keep: l.keep, Part: func(int64) func() { return func() {} },
	}
}

// TestDictionariesAreSharedToo reads a column of a row group with several readers: its dictionary
// is decompressed once, reserved once, and released with the stored bytes.
//
// spec: storage-14
func TestDictionariesAreSharedToo(t *testing.T) {
	t.Parallel()
	all := repetitive(t)
	s, f := opened(t, write(t, parquettest.Options{PageBytes: 1000}, all), nil)
	for leaf, column := range numbersSchema().Fields() {
		s.Reset()
		needed := true
		shared := parquet.NewSharedChunks(func(string, int64, int64) bool { return needed })
		scratch := &tally{Allocator: allocator(t), sizes: map[int]int{}}
		l := &lender{}
		const readers = 7
		for i := range int64(readers) {
			from, to := i*all.NumRows()/readers, (i+1)*all.NumRows()/readers
			options := l.sharingRead(shared, from, to, scratch)
			options.Fields, options.Schema = []int{leaf + 1}, project(numbersSchema(), leaf)
			rdr, err := f.Read(t.Context(), options)
			require.NoError(t, err)
			at := from
			for rdr.Next() {
				b := rdr.RecordBatch()
				require.True(t, array.Equal(array.NewSlice(all.Column(leaf), at, at+b.NumRows()), b.Column(0)))
				at += b.NumRows()
				require.NoError(t, l.admit(-rdr.Admitted(), 0))
			}
			require.NoError(t, rdr.Err())
			require.Equal(t, to, at)
			rdr.Release()
		}
		require.Equal(t, 1, s.Counts().Reads)
		require.Zero(t, l.free)
		size, ok := parquet.DictionaryBytes(f, leaf)
		require.True(t, ok, column.Name)
		require.Equal(t, 1, scratch.sizes[size], "allocations of the dictionary of %s", column.Name)
		require.Greater(t, l.kept, int64(size))
		needed = false
		shared.Settle()
		require.Zero(t, l.kept)
		shared.Close()
	}
}

// TestSharedBytesInUseAreNotDropped drops shared bytes while readers decode them, and when none
// does: then the next reader reads them again.
//
// spec: storage-14
func TestSharedBytesInUseAreNotDropped(t *testing.T) {
	t.Parallel()
	all := repetitive(t)
	s, f := opened(t, write(t, parquettest.Options{PageBytes: 1000}, all), nil)
	s.Reset()
	shared := parquet.NewSharedChunks(func(string, int64, int64) bool { return true })
	l := &lender{}
	for turn := range 2 {
		var open []*parquet.Reader
		for range 2 {
			rdr, err := f.Read(t.Context(), l.sharingRead(shared, 3000, 0, allocator(t)))
			require.NoError(t, err)
			open = append(open, rdr)
		}
		for at := int64(3000); at < 7000; at += 100 {
			if at == 5000 {
				open[0].Release()
				open = open[1:]
			}
			l.drop()
			for _, rdr := range open {
				require.True(t, rdr.Next(), "%v", rdr.Err())
				requireEqual(t, all.NewSlice(at, at+100), rdr.RecordBatch())
				require.NoError(t, l.admit(-rdr.Admitted(), 0))
			}
		}
		require.False(t, open[0].Next())
		require.NoError(t, open[0].Err())
		open[0].Release()
		require.Equal(t, turn+1, s.Counts().Reads)
		require.Positive(t, l.kept)
		l.drop()
		require.Zero(t, l.kept)
		require.Zero(t, l.free)
	}
	shared.Close()
}

// TestSharedBytesAreReclaimed asks readers to give shared bytes up: they are released when all have
// agreed and closed the row group, and read again by the next reader.
//
// spec: storage-14
func TestSharedBytesAreReclaimed(t *testing.T) {
	t.Parallel()
	all := repetitive(t)
	s, f := opened(t, write(t, parquettest.Options{PageBytes: 1000}, all), nil)
	s.Reset()
	shared := parquet.NewSharedChunks(func(string, int64, int64) bool { return true })
	defer shared.Close()
	l := &lender{}
	agrees := [2]bool{}
	var open [2]*parquet.Reader
	next := func(i int, at int64) {
		require.True(t, open[i].Next(), "%v", open[i].Err())
		requireEqual(t, all.NewSlice(at, at+100), open[i].RecordBatch())
		require.NoError(t, l.admit(-open[i].Admitted(), 0))
	}
	begin := func(i int, from int64) {
		options := l.sharingRead(shared, from, 0, allocator(t))
		options.GiveUp = func() bool { return agrees[i] }
		var err error
		open[i], err = f.Read(t.Context(), options)
		require.NoError(t, err)
		next(i, from)
	}
	begin(0, 0)
	begin(1, 1000)
	for _, agrees[1] = range []bool{false, true} {
		require.Zero(t, shared.Reclaim(1), "a reader refuses")
	}
	agrees[0] = true
	require.Equal(t, f.Stored(0, ids(4)), shared.Reclaim(1))
	require.Equal(t, 1, l.lent)
	require.Zero(t, shared.Reclaim(1), "it is given up already")
	open[0].Release()
	require.Positive(t, l.kept)
	next(1, 1100)
	begin(0, 100)
	require.Equal(t, 2, s.Counts().Reads)
	both := l.kept
	open[1].Release()
	require.Less(t, l.kept, both)
	require.Positive(t, l.kept)
	next(0, 200)
	open[0].Release()
	require.Equal(t, 2, s.Counts().Reads)
	l.drop()
	require.Zero(t, l.kept)
	require.Zero(t, l.free)
}

// TestSharedReadsFailForOneReader lets a read of shared bytes fail: the reader that started it
// fails, and another one that waited reads again.
func TestSharedReadsFailForOneReader(t *testing.T) {
	t.Parallel()
	all := repetitive(t)
	s, f := opened(t, write(t, parquettest.Options{PageBytes: 1000}, all), nil)
	shared := parquet.NewSharedChunks(func(string, int64, int64) bool { return true })
	defer shared.Close()
	l, p := &lender{}, &purse{}
	options := l.sharingRead(shared, 10, 20, allocator(t))
	options.Ahead = p.ahead
	first, err := f.Read(t.Context(), options)
	require.NoError(t, err)
	defer first.Release()
	second, err := f.Read(t.Context(), options)
	require.NoError(t, err)
	defer second.Release()
	mine := errors.New("mine")
	s.Set(errstore.Rule{Nth: 1, Action: errstore.Fail(mine)})
	first.Fetch()
	second.Fetch()
	require.True(t, second.Next(), "%v", second.Err())
	requireEqual(t, all.NewSlice(10, 20), second.RecordBatch())
	require.NoError(t, l.admit(-second.Admitted(), 0))
	require.False(t, first.Next())
	require.ErrorIs(t, first.Err(), mine)
}

// TestReadersOfSharedBytesThatEnd releases the reader that reads the bytes for others, which read
// them again.
func TestReadersOfSharedBytesThatEnd(t *testing.T) {
	t.Parallel()
	all := repetitive(t)
	s, f := opened(t, write(t, parquettest.Options{PageBytes: 1000}, all), nil)
	shared := parquet.NewSharedChunks(func(string, int64, int64) bool { return true })
	defer shared.Close()
	l, p := &lender{}, &purse{}
	options := l.sharingRead(shared, 10, 20, allocator(t))
	options.Ahead = p.ahead
	first, err := f.Read(t.Context(), options)
	require.NoError(t, err)
	second, err := f.Read(t.Context(), options)
	require.NoError(t, err)
	gate := make(chan struct{})
	s.Set(errstore.Rule{Nth: 1, Action: errstore.Hold(gate)})
	first.Fetch()
	second.Fetch()
	first.Release()
	close(gate)
	require.True(t, second.Next())
	requireEqual(t, all.NewSlice(10, 20), second.RecordBatch())
	require.NoError(t, l.admit(-second.Admitted(), 0))
	second.Release()
	require.Zero(t, p.held)
}

// TestPagesOfListsAreCounted reads lists in version 1 pages, whose headers do not tell their rows,
// with readers that share the row group: each decodes only the pages with its rows.
//
// spec: storage-15
func TestPagesOfListsAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range cases() {
		if !arrow.IsNested(c.kind.ID()) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := repeat(t, c.column(t, true), 100)
			f := open(t, write(t, parquettest.Options{PageBytes: 40}, all))
			shared := parquet.NewSharedChunks(func(string, int64, int64) bool { return true })
			defer shared.Close()
			l := &lender{}
			for _, from := range []int64{all.NumRows() * 7 / 8, all.NumRows() / 3} {
				options := l.sharingRead(shared, from, from+200, allocator(t))
				options.Fields, options.Schema = ids(1), all.Schema()
				rdr, err := f.Read(t.Context(), options)
				require.NoError(t, err)
				for at := from; at < from+200; at += 100 {
					require.True(t, rdr.Next(), "%v", rdr.Err())
					requireEqual(t, all.NewSlice(at, at+100), rdr.RecordBatch())
					require.NoError(t, l.admit(-rdr.Admitted(), 0))
				}
				for leaf := range parquet.Leaves(f) {
					first, last, viewed := rdr.ViewOf(leaf)
					require.True(t, viewed)
					require.LessOrEqual(t, first, from)
					require.GreaterOrEqual(t, last, from+200)
					if parquet.Leaves(f) == 1 {
						require.Less(t, last-first, int64(2500), "rows that are decoded")
					}
				}
				require.False(t, rdr.Next())
				require.NoError(t, rdr.Err())
				rdr.Release()
			}
			require.Zero(t, l.free)
		})
	}
}
