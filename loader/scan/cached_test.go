package scan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// caching makes a scanner with a cache of footers and one of columns.
func (r *rig) caching(t *testing.T, o scan.Options, limit int64, lose func(chunkcache.ChunkID) bool) (*scan.Scanner, *chunkcache.ColumnCache) {
	t.Helper()
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	t.Cleanup(footers.Close)
	if o.Budget == nil {
		o.Budget = budget.New(1 << 40)
	}
	o.Footers = footers
	o.Chunks = chunkcache.New(chunkcache.Options{Budget: o.Budget, Clock: time.Now, Limit: limit, Lose: lose})
	s := r.scanner(o)
	t.Cleanup(func() {
		require.Zero(t, o.Budget.InUse())
		o.Chunks.Drop("")
		require.Zero(t, o.Budget.Used())
		require.Zero(t, o.Budget.Idle())
	})
	return s, o.Chunks
}

// repeated is a source whose first scan fills the cache.
func (r *rig) repeated() plan.Source {
	s := r.source()
	s.Cache = dataset.CacheFill
	return s
}

// bytesRead returns the bytes that were read since the last call.
func (r *rig) bytesRead() int64 {
	n := r.store.Counts().Bytes
	r.store.Reset()
	return n
}

// TestCachedColumnsAreNotRead counts the bytes of each scan: the second one keeps what the first one
// has read, the third one reads nothing, and a column more costs its own bytes. With CacheFill, the
// second one reads nothing; with CacheOff, each reads all.
//
// spec: cache-1, cache-2, cache-4
func TestCachedColumnsAreNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(600, 200, 1)
	r.grow(300, 100, 2)
	s, c := r.caching(t, scan.Options{}, 1<<30, nil)
	columns, source := r.columns("id", "x", "tags"), r.source()
	want := r.want(source, columns, nil)
	read := func(source plan.Source, columns []catalog.Field) int64 {
		r.bytesRead()
		got := r.read(s, source, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(source, columns, nil), got.lines)
		return r.bytesRead()
	}
	first := read(source, columns)
	require.Zero(t, c.Stats().Units, "the first scan leaves a note alone")
	second := read(source, columns)
	require.Positive(t, second)
	require.Less(t, second, first, "the footers are cached")
	require.Zero(t, read(source, columns))
	require.EqualValues(t, 4*6, c.Stats().Hits, "three columns and the key, of six row groups")
	require.Positive(t, c.Stats().Saved)

	off := source
	off.Cache = dataset.CacheOff
	require.Equal(t, second, read(off, columns))
	require.EqualValues(t, 4*6, c.Stats().Hits)

	fill := r.repeated()
	more := r.columns("id", "x", "tags", "price")
	price := r.storedBytes(s, source, "price", "id", "x", "tags")
	require.InDelta(t, price, read(fill, more), float64(price)/10)
	require.Zero(t, read(fill, more))

	part := source
	part.Files = slices.Clone(source.Files)
	part.Files[0].From, part.Files[0].To = 150, 470
	require.Zero(t, read(part, columns), "parts of row groups are found, too")
	require.Equal(t, want[150:470], r.want(part, columns, nil)[:320])
}

// storedBytes returns how many bytes of a column a scan reads besides those of other columns, if it finds only the footers in caches.
func (r *rig) storedBytes(s *scan.Scanner, source plan.Source, column string, others ...string) int64 {
	r.t.Helper()
	source.Cache, source.Coded = dataset.CacheOff, nil
	read := func(columns ...string) int64 {
		r.bytesRead()
		require.NoError(r.t, r.read(s, source, r.columns(columns...)).err)
		return r.bytesRead()
	}
	without := read(others...)
	return read(append(others, column)...) - without
}

// TestDeletesInvalidateNothing commits deletes between two scans: the second one reads the delete
// file alone.
//
// spec: cache-3
func TestDeletesInvalidateNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(100, 50, 1)
	s, _ := r.caching(t, scan.Options{}, 1<<30, nil)
	columns := r.columns("id", "key")
	require.NoError(t, r.read(s, r.repeated(), columns).err)
	r.list[0].Deletes = catalog.Deletes{Vector: r.vector("d", locationOf(0), 3, 99)}
	r.bytesRead()
	got := r.read(s, r.repeated(), columns)
	require.NoError(t, got.err)
	require.Equal(t, r.want(r.source(), columns, allBut(3, 99)), got.lines)
	for _, q := range r.store.Requests() {
		require.Equal(t, "d", q.Location)
	}
}

// TestCachedColumnsGiveTheSame scans random parts of files with filters and deletes that come and go, by scanners with
// a large, a small, and a losing cache, in random batch sizes, one after another and at once. Keys, which repeat in some files, may
// come as codes, or must not.
//
// spec: cache-1, cache-3, cache-12, cache-13
func TestCachedColumnsGiveTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for size, lose := range map[int64]int{1 << 30: 0, 3 << 10: 0, 1 << 29: 4, 1 << 28: 50} {
		t.Run(fmt.Sprintf("%d %d", size, lose), func(t *testing.T) {
			r := newRig(t)
			for b := range int32(3) {
				r.grow(100+random.IntN(100), 20+random.IntN(60), b)
				r.addRepeated(100+random.IntN(100), 50+random.IntN(60), b)
			}
			vector, first := r.vector("d", locationOf(1), 1, 2, 30, 31, 90), r.list[0].Rows
			var mu sync.Mutex
			s, c := r.caching(t, scan.Options{BatchRows: 1 + random.IntN(30), MinRepeats: 1 + random.IntN(8)}, size, func(chunkcache.ChunkID) bool {
				mu.Lock()
				defer mu.Unlock()
				return lose > 0 && random.IntN(lose) == 0
			})
			coded := 0
			for range 40 {
				gone := []int64{}
				if r.list[1].Deletes = (catalog.Deletes{}); random.IntN(2) == 0 {
					r.list[1].Deletes.Vector = vector
					gone = []int64{first + 1, first + 2, first + 30, first + 31, first + 90}
				}
				source, names := r.repeated(), slices.Clone(all)
				if random.IntN(3) == 0 {
					source.Cache, source.Spare = dataset.CacheRead, random.IntN(2) == 0
				}
				if random.IntN(3) > 0 {
					source.Coded, source.Checked = []int{2}, nil
				}
				random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
				columns := r.columns(names[:random.IntN(len(names)+1)]...)
				for i, f := range source.Files {
					if random.IntN(2) == 0 {
						source.Files[i].From = random.Int64N(f.To)
						source.Files[i].To = source.Files[i].From + random.Int64N(f.To-source.Files[i].From+1)
					}
				}
				pass := allBut(gone...)
				if random.IntN(2) == 0 {
					source.Filter = r.filter("id > 30 AND x IS NOT NULL")
					pass = func(row int64) bool { return row > 30 && row%5 != 0 && allBut(gone...)(row) }
				}
				want := r.want(source, columns, pass)
				var group sync.WaitGroup
				for range 1 + random.IntN(3) {
					group.Go(func() {
						rdr, err := s.Open(t.Context(), source, columns)
						if err != nil {
							t.Error(err)
							return
						}
						defer rdr.Release()
						lines := []string{}
						for rdr.Next() {
							lines = append(lines, texts(rdr.RecordBatch())...)
							mu.Lock()
							if slices.ContainsFunc(rdr.RecordBatch().Columns(), batch.IsCoded) {
								coded++
							}
							mu.Unlock()
						}
						if rdr.Err() != nil || !slices.Equal(want, lines) {
							at := 0
							for at < min(len(want), len(lines)) && want[at] == lines[at] {
								at++
							}
							t.Errorf("%v: got %d rows, not %d; the first that differs is %v, not %v", rdr.Err(), len(lines), len(want), lines[at:min(at+1, len(lines))], want[at:min(at+1, len(want))])
						}
					})
				}
				group.Wait()
				require.LessOrEqual(t, c.Stats().Bytes, size)
			}
			require.Positive(t, c.Stats().Hits)
			require.Positive(t, coded)
		})
	}
}

// TestCachedMemoryIsGivenUp in the middle of a scan that reads it: the scan continues from the file.
// Nothing was pressed, and all that the cache holds counts as free.
//
// spec: cache-5
func TestCachedMemoryIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(400, 200, 1)
	limit := budget.New(1 << 30)
	s, c := r.caching(t, scan.Options{Budget: limit, BatchRows: 50, Ahead: scan.NoAhead}, 1<<28, nil)
	columns := r.columns(all...)
	want := r.want(r.source(), columns, nil)
	require.NoError(t, r.read(s, r.repeated(), columns).err)
	require.Positive(t, limit.Used())
	require.Zero(t, limit.InUse())

	rdr, err := s.Open(t.Context(), r.source(), columns)
	require.NoError(t, err)
	defer rdr.Release()
	lines := []string{}
	for i := 0; rdr.Next(); i++ {
		lines = append(lines, texts(rdr.RecordBatch())...)
		if i == 1 {
			kept := rdr.RecordBatch()
			kept.Retain()
			before := texts(kept)
			others, err := limit.Reserve("others", 1<<30-limit.InUse())
			require.NoError(t, err)
			require.Zero(t, c.Stats().Units)
			require.False(t, limit.Pressed())
			require.Equal(t, before, texts(kept), "a batch keeps its memory")
			require.GreaterOrEqual(t, limit.Used(), others.Held())
			kept.Release()
			others.Release()
		}
	}
	require.NoError(t, rdr.Err())
	require.Equal(t, want, lines)
}

// TestPartsOfRowGroupsFillTheCache in any order: scans of parts find what those before them have decoded, and once
// all parts were read, no scan reads any bytes.
//
// spec: cache-2, cache-9
func TestPartsOfRowGroupsFillTheCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(600, 200, 1)
	s, c := r.caching(t, scan.Options{BatchRows: 30}, 1<<30, nil)
	columns := r.columns(all...)
	read := func(from, to int64) int64 {
		source := r.repeated()
		source.Files[0].From, source.Files[0].To = from, to
		r.bytesRead()
		got := r.read(s, source, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(source, columns, nil), got.lines)
		return r.bytesRead()
	}
	require.Positive(t, read(150, 350))
	require.Zero(t, read(170, 340))
	require.Positive(t, read(340, 351))
	require.Positive(t, read(500, 600))
	require.Zero(t, c.Stats().Filled)
	require.Positive(t, read(0, 160))
	require.Positive(t, read(351, 500))
	require.Zero(t, read(0, 600))
	require.Zero(t, c.Stats().Partial)
	require.EqualValues(t, 3*len(all), c.Stats().Filled)
}

// TestColumnsThatReturnHaveLongArrays reads epochs of parts that begin at random rows, between which some columns are
// lost. Batches end where arrays of the columns that stayed do, and columns that return have the arrays of the batches: they
// must not become shorter from epoch to epoch.
//
// spec: cache-1
func TestColumnsThatReturnHaveLongArrays(t *testing.T) {
	t.Parallel()
	const rows, parts = 20_000, 8
	r := newRig(t)
	r.grow(rows, rows, 1)
	random := rand.New(rand.NewPCG(1, 2))
	asked := map[chunkcache.ChunkID]bool{} // in this epoch
	s, c := r.caching(t, scan.Options{Cores: cores.New(1), Ahead: scan.NoAhead}, 1<<30, func(of chunkcache.ChunkID) bool {
		first := !asked[of]
		asked[of] = true
		return first && random.IntN(3) == 0
	})
	columns := r.columns(all...)
	want := r.want(r.source(), columns, nil)
	batches := func(from, to int64) (n int) {
		source := r.repeated()
		source.Files[0].From, source.Files[0].To = from, to
		rdr, err := s.Open(t.Context(), source, columns)
		require.NoError(t, err)
		defer rdr.Release()
		lines := make([]string, 0, to-from)
		for ; rdr.Next(); n++ {
			lines = append(lines, texts(rdr.RecordBatch())...)
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, want[from:to], lines)
		return n
	}
	for range 12 {
		clear(asked)
		cuts := []int64{0, rows}
		for range parts - 1 {
			cuts = append(cuts, random.Int64N(rows))
		}
		slices.Sort(cuts)
		for i := range parts {
			batches(cuts[i], cuts[i+1])
		}
	}
	require.Positive(t, c.Stats().Hits)
	require.LessOrEqual(t, batches(0, rows), rows>>10+parts)
}

// TestCachedPartsKeepNoStream: what is kept of a stream's columns, whole or in part, does not keep its context.
func TestCachedPartsKeepNoStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(400, 200, 1)
	s, c := r.caching(t, scan.Options{BatchRows: 50}, 1<<30, nil)
	type held struct{ _ [1 << 10]byte }
	value := func() weak.Pointer[held] {
		of := &held{}
		source := r.repeated()
		source.Files[0].To = 300
		rdr, err := s.Open(context.WithValue(t.Context(), held{}, of), source, r.columns(all...))
		require.NoError(t, err)
		for rdr.Next() {
			require.Positive(t, rdr.RecordBatch().NumRows())
		}
		require.NoError(t, rdr.Err())
		rdr.Release()
		return weak.Make(of)
	}()
	runtime.GC()
	require.Nil(t, value.Value())
	require.EqualValues(t, len(all), c.Stats().Partial)
	require.EqualValues(t, len(all), c.Stats().Filled)
}

// TestScansThatEndWithTheirLastRowFillTheCache: a scan that is released after its last row, before it is asked for more, has
// filled the cache.
func TestScansThatEndWithTheirLastRowFillTheCache(t *testing.T) {
	t.Parallel()
	for range 200 { // the reader races with the decoder
		r := newRig(t)
		r.grow(20, 20, 1)
		s, c := r.caching(t, scan.Options{}, 1<<30, nil)
		rdr, err := s.Open(t.Context(), r.repeated(), r.columns(all...))
		require.NoError(t, err)
		require.True(t, rdr.Next(), rdr.Err())
		require.EqualValues(t, 20, rdr.RecordBatch().NumRows())
		rdr.Release()
		require.EqualValues(t, len(all), c.Stats().Filled)
	}
}

// TestTightBudgetsWithACache: a cache needs no memory of its own. What works without one works with one.
//
// spec: cache-5
func TestTightBudgetsWithACache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(300, 60, 1)
	columns := r.columns(all...)
	largest, stored := sizes(t, r, all...)
	for bytes := largest / 2; bytes < 4*(largest+stored); bytes += largest / 3 {
		plain := r.read(r.scanner(scan.Options{Budget: budget.New(bytes)}), r.source(), columns)
		limit := budget.New(bytes)
		s, _ := r.caching(t, scan.Options{Budget: limit}, bytes/2, nil)
		for range 3 {
			got := r.read(s, r.repeated(), columns)
			require.LessOrEqual(t, limit.Peak(), bytes)
			if plain.err == nil {
				require.NoError(t, got.err, "%d bytes", bytes)
				require.Equal(t, plain.lines, got.lines)
			} else if got.err != nil {
				require.Equal(t, fault.Exhausted, fault.KindOf(got.err))
			}
		}
	}
}

// forgetful is a disk: a column that comes from it takes the memory of all others.
type forgetful struct {
	budget *budget.Budget

	mu     sync.Mutex
	stored map[chunkcache.ChunkID]arrow.Array
	reads  int
}

func (f *forgetful) Put(of chunkcache.ChunkID, values chunkcache.StoredColumn, done func()) {
	defer done()
	copied, err := array.Concatenate(values.Arrays, memory.DefaultAllocator)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored[of] = copied
}

func (f *forgetful) Get(_ context.Context, of chunkcache.ChunkID, want chunkcache.Wanted) (*chunkcache.StoredColumn, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := f.stored[of]
	if f.reads++; from == nil || f.reads > 1000 {
		return nil, false
	}
	others, err := f.budget.Reserve("others", f.budget.Limit()-f.budget.InUse())
	if err != nil {
		return nil, false
	}
	others.Release()
	held, err := want.Reserve(batch.ArraySize(from))
	if err != nil {
		return nil, false
	}
	from.Retain()
	return &chunkcache.StoredColumn{Arrays: []arrow.Array{from}, Held: held, Cost: 70}, true
}

// TestColumnsThatDoNotStayAreDecoded: a row group whose columns from disk are given up before they are
// read is not looked up again and again.
//
// spec: cache-1
func TestColumnsThatDoNotStayAreDecoded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(400, 200, 1)
	limit := budget.New(1 << 30)
	disk := &forgetful{budget: limit, stored: map[chunkcache.ChunkID]arrow.Array{}}
	o := scan.Options{Budget: limit, BatchRows: 50, Chunks: chunkcache.New(chunkcache.Options{Budget: limit, Clock: time.Now, Limit: 1 << 28, Disk: disk})}
	s := r.scanner(o)
	columns := r.columns("id", "x", "key")
	require.NoError(t, r.read(s, r.repeated(), columns).err)
	require.NotEmpty(t, disk.stored)
	o.Chunks.Drop("")
	disk.reads = 0
	got := r.read(s, r.repeated(), columns)
	require.NoError(t, got.err)
	require.Equal(t, r.want(r.source(), columns, nil), got.lines)
	require.LessOrEqual(t, disk.reads, 2*4*2, "each column of both row groups, ahead and again")
	o.Chunks.Drop("")
	require.Zero(t, limit.Used())
}
