package chunkcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is the number of rows of a row group, arrays that of its batches.
const rows, arrays = 128, 4

// unit is the bytes of a column: each array has a validity bitmap.
const unit = rows*8 + arrays*64

// rig is a cache, with an allocator that poisons freed memory.
type rig struct {
	*chunkcache.ColumnCache
	t      *testing.T
	budget *budget.Budget
	memory memory.Allocator
}

// newRig makes a cache with room for some columns.
func newRig(t *testing.T, columns int64, change func(*chunkcache.Options)) *rig {
	t.Helper()
	checked := memory.NewCheckedAllocator(batch.Default())
	o := chunkcache.Options{Budget: budget.New(1 << 20), Clock: time.Now, Limit: columns * unit}
	if change != nil {
		change(&o)
	}
	r := &rig{t: t, ColumnCache: chunkcache.New(o), budget: o.Budget, memory: checked}
	t.Cleanup(func() {
		require.Zero(t, r.budget.InUse())
		r.Drop("")
		require.Zero(t, r.budget.Used())
		require.Zero(t, r.budget.Idle())
		checked.AssertSize(t, 0)
	})
	return r
}

// drawing returns a function that draws numbers below n, by seeds. It is safe for concurrent use.
func drawing(one, other uint64) (draw func(n int) int) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(one, other))
	return func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
}

// disturb takes memory for others, and drops the cache about once in a number of times.
func (r *rig) disturb(draw func(n int) int, drops int) {
	for range 200 {
		if held, err := r.budget.Reserve("others", int64(draw(20)*unit)); err == nil {
			held.Release()
		}
		if draw(drops) == 0 {
			r.Drop("")
		}
	}
}

func column(i int) chunkcache.ChunkID {
	return chunkcache.ChunkID{Table: "u", File: fmt.Sprintf("data/%d", i), FileSize: 9, Field: i, Type: "long"}
}

// values makes the numbers of a column from one on.
func (r *rig) values(from, n int) arrow.Array {
	b := array.NewInt64Builder(r.memory)
	defer b.Release()
	b.Reserve(n)
	for i := range n {
		b.Append(int64(from + i))
	}
	return b.NewArray()
}

// fill fills the cache with a column as a scan does, and reports whether it is kept.
func (r *rig) fill(i int, took time.Duration, repeated bool) bool {
	f := r.Fill(chunkcache.Filling{Column: column(i), Table: "t", Rows: rows, To: rows, Repeated: repeated})
	if f == nil {
		return false
	}
	for at := range arrays {
		a := r.values(1000*i+at*rows/arrays, rows/arrays)
		view := f.Add(chunkcache.Decoded{Array: a, Took: took / arrays, Charge: func(bytes int64) *budget.Reservation {
			held, err := r.budget.Reserve("a column", bytes)
			if err != nil {
				return nil
			}
			return held
		}})
		a.Release()
		if view != nil {
			view.Release()
		}
	}
	f.Commit()
	return r.Has(column(i))
}

func (r *rig) find(i int) *chunkcache.Pinned {
	return r.Find(context.Background(), column(i), chunkcache.Wanted{Rows: rows, To: rows})
}

// check reads a column and compares its values.
func check(t *testing.T, p *chunkcache.Pinned, i, step int) error {
	t.Helper()
	for at := 0; at < rows; {
		n := min(int64(step), p.Rows())
		a, err := p.Read(n, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		for j, v := range a.(*array.Int64).Int64Values() {
			if v != int64(1000*i+at+j) {
				t.Errorf("row %d of column %d is %d", at+j, i, v)
			}
		}
		at += a.Len()
		a.Release()
	}
	require.Zero(t, p.Rows())
	return nil
}

// TestSecondScanFills: the first one leaves a note, unless the column is known to be read again.
func TestSecondScanFills(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	require.False(t, r.fill(1, 1000, false))
	require.Nil(t, r.find(1))
	require.True(t, r.fill(1, 1000, false))
	require.False(t, r.fill(2, 1000, false))
	require.True(t, r.fill(3, 1000, true))
	for _, step := range []int{1, 7, 32, 1000} {
		p := r.find(1)
		require.NoError(t, check(t, p, 1, step))
		p.Release()
		p.Release()
	}
	s := r.Stats()
	require.EqualValues(t, 2, s.Units)
	require.EqualValues(t, 4, s.Hits)
	require.InDelta(t, 4*unit, s.HitBytes, 4*rows)
	require.InDelta(t, 4*1000, s.Saved, 200)
	require.Equal(t, []chunkcache.Listed{
		{Table: "t", File: "data/1", Columns: 1, Bytes: unit, Hits: 4, Saved: 1000},
		{Table: "t", File: "data/3", Columns: 1, Bytes: unit, Saved: 1000},
	}, r.List())
	units, bytes := r.Drop("other")
	require.Zero(t, units+int(bytes))
	units, bytes = r.Drop("t")
	require.Equal(t, 2, units)
	require.EqualValues(t, 2*unit, bytes)
}

// TestGhostsAreBounded: notes of the first scan are dropped, the oldest first.
func TestGhostsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, nil)
	require.False(t, r.fill(0, 1, false))
	for i := 1; i < 2000; i++ {
		require.False(t, r.fill(i, 1, false))
	}
	require.False(t, r.fill(0, 1, false), "it is forgotten")
	require.True(t, r.fill(1999, 1, false))
}

// TestTurnsKeepAPart: of a table that is read in turns and is larger than the cache, a part stays. When
// another table is read instead, it takes its place.
//
// spec: cache-6
func TestTurnsKeepAPart(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	turn := func(from, to int) (hits int) {
		for i := from; i < to; i++ {
			if p := r.find(i); p != nil {
				hits++
				require.NoError(t, check(t, p, i, 50))
				p.Release()
			} else {
				r.fill(i, 10000, true)
			}
			require.LessOrEqual(t, r.Stats().Bytes, r.Stats().Limit)
		}
		return hits
	}
	require.Zero(t, turn(0, 40))
	for range 6 {
		require.Equal(t, 10, turn(0, 40))
	}
	for range 6 {
		turn(100, 140)
	}
	require.Equal(t, 10, turn(100, 140))
}

// TestCheapColumnsMakeRoom for those that take longer per byte, and not the other way round.
func TestCheapColumnsMakeRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	for i := range 4 {
		require.True(t, r.fill(i, time.Duration(2000+1000*i), true))
	}
	require.False(t, r.fill(9, 2000, true))
	require.True(t, r.fill(10, 90000, true))
	require.False(t, r.Has(column(0)), "the cheapest went")
	require.True(t, r.Has(column(1)))
	require.EqualValues(t, 1, r.Stats().Evicted)
}

// TestViewsOutliveTheirUnit: what is dropped is charged until its last view is released.
func TestViewsOutliveTheirUnit(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	require.True(t, r.fill(1, 1, true))
	require.EqualValues(t, unit, r.budget.Idle())
	p := r.find(1)
	require.Zero(t, r.budget.InUse(), "a pin is not a use")
	a, err := p.Read(5, memory.DefaultAllocator)
	require.NoError(t, err)
	slice := array.NewSlice(a, 3, 5)
	a.Release()
	require.EqualValues(t, unit/arrays, r.budget.InUse())
	r.Drop("")
	require.EqualValues(t, unit/arrays, r.budget.Used(), "the other arrays are freed")
	require.Equal(t, []int64{1003, 1004}, slice.(*array.Int64).Int64Values())
	slice.Release()
	require.Zero(t, r.budget.Used())
	_, err = p.Read(1, memory.DefaultAllocator)
	require.ErrorIs(t, err, chunkcache.ErrGone)
	p.Release()
}

// TestMemoryIsGivenUp when a reservation lacks room: units that no scan has pinned first, the least valuable of
// them first, then those that are being filled, then the others. The budget is not pressed.
func TestMemoryIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	for i := range 3 {
		require.True(t, r.fill(i, time.Duration(1000*(i+1)), true))
	}
	pinned := r.find(0)
	defer pinned.Release()
	f := r.Fill(chunkcache.Filling{Column: column(7), Rows: rows, To: rows, Repeated: true})
	a := r.values(0, rows)
	add := func() arrow.Array {
		return f.Add(chunkcache.Decoded{Array: a, Charge: func(bytes int64) *budget.Reservation {
			held, _ := r.budget.Reserve("a column", bytes)
			return held
		}})
	}
	add().Release()
	defer a.Release()
	take := func(bytes int64) {
		held, err := r.budget.Reserve("others", r.budget.Limit()-r.budget.Used()+bytes)
		require.NoError(t, err)
		held.Release()
		require.False(t, r.budget.Pressed())
	}
	take(1)
	require.False(t, r.Has(column(1)))
	require.True(t, r.Has(column(2)))
	take(unit + 1)
	require.False(t, r.Has(column(2)))
	require.True(t, r.Has(column(0)))
	require.Nil(t, add(), "the fill has ended")
	f.Commit()
	require.False(t, r.Has(column(7)))
	take(1)
	require.False(t, r.Has(column(0)))
	require.ErrorIs(t, check(t, pinned, 0, 10), chunkcache.ErrGone)
	require.Zero(t, r.budget.Used())
}

// freeing is an allocator that calls a function before it frees memory.
type freeing struct {
	memory.Allocator
	before func()
}

func (f freeing) Free(b []byte) {
	f.before()
	f.Allocator.Free(b)
}

// TestStreamsWaitForGivenUpMemory that another goroutine is about to free: they do not fail, although all
// streams wait.
//
// spec: cache-5
func TestStreamsWaitForGivenUpMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 10, func(o *chunkcache.Options) { o.Budget = budget.New(2 * unit) })
		ctx, stream := r.budget.Enter(t.Context(), "host")
		held, err := r.budget.Reserve("rows", 0)
		require.NoError(t, err)
		ended := make(chan error, 1)
		wait := sync.OnceFunc(func() {
			go func() { ended <- held.GrowWait(ctx, 2*unit) }()
			synctest.Wait()
		})
		r.memory = freeing{r.memory, wait}
		require.True(t, r.fill(1, 1000, true))
		r.Drop("")
		require.NoError(t, <-ended)
		held.Release()
		stream.Release()
	})
}

// TestIncompleteColumnsAreNotKept: neither those of a scan that ends early, nor those without memory.
func TestIncompleteColumnsAreNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	f := r.Fill(chunkcache.Filling{Column: column(1), Rows: rows, To: rows, Repeated: true})
	require.Nil(t, r.Fill(chunkcache.Filling{Column: column(1), Rows: rows, To: rows, Repeated: true}), "it is being filled")
	a := r.values(0, rows-1)
	defer a.Release()
	view := f.Add(chunkcache.Decoded{Array: a, Charge: func(bytes int64) *budget.Reservation {
		held, _ := r.budget.Reserve("a column", bytes)
		return held
	}})
	f.Commit()
	require.False(t, r.Has(column(1)))
	require.EqualValues(t, 0, view.(*array.Int64).Value(0))
	view.Release()
	f = r.Fill(chunkcache.Filling{Column: column(1), Rows: rows, To: rows, Repeated: true})
	require.Nil(t, f.Add(chunkcache.Decoded{Array: a, Charge: func(int64) *budget.Reservation { return nil }}))
	f.Abandon()
	f.Commit()
	require.Zero(t, r.Stats().Bytes)
}

// slow is a Disk that keeps what it got.
type slow struct {
	r         *rig
	puts      map[chunkcache.ChunkID]int
	unchecked bool
}

func (s *slow) Put(of chunkcache.ChunkID, values chunkcache.StoredColumn, done func()) {
	s.puts[of], s.unchecked = len(values.Arrays), values.Unchecked
	done()
}

func (s *slow) Get(_ context.Context, of chunkcache.ChunkID, want chunkcache.Wanted) (*chunkcache.StoredColumn, bool) {
	if s.puts[of] == 0 {
		return nil, false
	}
	held, err := want.Reserve(unit + 100)
	if err != nil {
		return nil, false
	}
	return &chunkcache.StoredColumn{Arrays: []arrow.Array{s.r.values(5000, rows/2), s.r.values(5000+rows/2, rows/2)}, Held: held, Cost: 70, Unchecked: s.unchecked}, true
}

// TestDiskIsAskedNext: it gets what is filled, and what it returns is kept if there is room, or else leaves
// with its pin.
func TestDiskIsAskedNext(t *testing.T) {
	t.Parallel()
	disk := &slow{puts: map[chunkcache.ChunkID]int{}}
	r := newRig(t, 2, func(o *chunkcache.Options) { o.Disk = disk })
	disk.r = r
	require.True(t, r.fill(5, 70, true))
	require.Equal(t, arrays, disk.puts[column(5)])
	r.Drop("")
	disk.unchecked = true
	p := r.find(5)
	require.NoError(t, check(t, p, 5, 40))
	require.True(t, p.Unchecked())
	p.Release()
	require.True(t, r.Has(column(5)))
	require.EqualValues(t, 1, r.Stats().DiskHits)
	r.Drop("")
	require.True(t, r.fill(1, 1<<30, true))
	p = r.find(5)
	require.NoError(t, check(t, p, 5, 40))
	require.False(t, r.Has(column(5)))
	require.True(t, r.fill(2, 70, true), "what leaves with its pin takes no room from others")
	p.Release()
	require.EqualValues(t, 2*unit, r.budget.Used())
	rows, err := r.budget.Reserve("rows", r.budget.Limit()*3/4)
	require.NoError(t, err)
	require.Nil(t, r.find(5), "it can be decoded")
	require.False(t, r.budget.Pressed())
	require.True(t, r.Has(column(2)))
	rows.Release()
}

// TestCacheUnderLoad fills, reads, drops and loses columns in several goroutines, while others take the
// memory.
func TestCacheUnderLoad(t *testing.T) {
	t.Parallel()
	draw := drawing(3, 4)
	r := newRig(t, 12, func(o *chunkcache.Options) {
		o.Budget = budget.New(20 * unit)
		o.Lose = func(chunkcache.ChunkID) bool { return draw(40) == 0 }
	})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 400 {
				i := draw(20)
				p := r.find(i)
				if p == nil {
					r.fill(i, time.Duration(draw(5000)), draw(2) == 0)
					continue
				}
				_ = check(t, p, i, 1+draw(60))
				p.Release()
				if err := r.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() { r.disturb(draw, 20) })
	group.Wait()
	require.NoError(t, r.Check())
	require.LessOrEqual(t, r.budget.Peak(), r.budget.Limit())
	require.Positive(t, r.Stats().Hits)
}
