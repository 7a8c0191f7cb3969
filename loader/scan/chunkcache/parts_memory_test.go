package chunkcache_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// TestPinnedRowsStayWithoutRoom for the others: arrays that are larger than those before do not fit.
func TestPinnedRowsStayWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, nil)
	r.fillPart(1, 0, 64)
	r.fillPart(2, 0, 64)
	pinned := r.Find(context.Background(), column(1), chunkcache.Wanted{Rows: rows, From: 0, To: 60})
	p := r.part(1, 64, rows)
	for p.at < rows && p.add(1, 1) {
		require.LessOrEqual(t, r.Stats().Bytes, r.Stats().Limit)
	}
	require.Less(t, p.at, rows)
	p.fill.Commit()
	a, err := pinned.Read(60, memory.DefaultAllocator)
	require.NoError(t, err)
	a.Release()
	pinned.Release()
	require.True(t, r.has(1, 0, 64))
}

// TestPartsHaveRoom: a column that begins has room for all of its rows, so that others that begin do not keep it from
// becoming complete. A column that is dropped leaves the room, and what scans add to it is not kept.
//
// spec: cache-6
func TestPartsHaveRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, nil)
	r.fillPart(1, 0, 64)
	r.fillPart(2, 64, rows)
	r.fillPart(3, 0, 64)
	require.False(t, r.has(3, 0, 64))
	require.EqualValues(t, 1, r.Stats().Passed)
	r.fillPart(1, 64, rows)
	require.True(t, r.Has(column(1)))
	p := r.part(2, 0, 64)
	require.True(t, p.add(32, 1))
	r.Drop("")
	require.False(t, p.add(32, 1))
	p.fill.Commit()
	require.False(t, r.has(2, 0, 32))
	require.Zero(t, r.Stats().Bytes)
	r.fillPart(3, 0, 64)
	r.fillPart(4, 0, 64)
	require.True(t, r.has(3, 0, 64))
	require.True(t, r.has(4, 0, 64))
}

// TestPartsAreEvictedAndGivenUp as whole columns are.
//
// spec: cache-5, cache-6
func TestPartsAreEvictedAndGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, nil)
	r.fillPart(1, 0, 64)
	require.True(t, r.fill(2, time.Microsecond, true))
	for range 40 {
		r.fill(3, time.Microsecond, true)
	}
	require.True(t, r.Has(column(3)), "it was offered often enough")
	r.fillPart(1, 0, 64)
	require.Positive(t, r.Stats().Evicted)
	r.Drop("")
	r.fillPart(1, 0, 64)
	p := r.part(1, 64, rows)
	require.True(t, p.add(32, 1))
	held, err := r.budget.Reserve("others", r.budget.Limit())
	require.NoError(t, err)
	require.False(t, r.budget.Pressed())
	held.Release()
	require.False(t, p.add(32, 1))
	p.fill.Commit()
	require.Zero(t, r.Stats().Bytes)
	require.Zero(t, r.budget.Used())
}

// TestDiskGetsWholeColumns, in order and each row once, when the last part has come. What comes from disk takes the place
// of a part.
func TestDiskGetsWholeColumns(t *testing.T) {
	t.Parallel()
	disk := &keeping{values: map[chunkcache.ChunkID][]int64{}}
	r := newRig(t, 10, func(o *chunkcache.Options) { o.Disk = disk })
	disk.r = r
	r.fillPart(1, 60, 100)
	r.fillPart(1, 90, rows)
	require.Empty(t, disk.values)
	r.fillPart(1, 0, 70)
	require.Len(t, disk.values[column(1)], rows)
	for i, v := range disk.values[column(1)] {
		require.EqualValues(t, 1000+i, v)
	}
	r.Drop("")
	r.fillPart(1, 0, 70)
	require.True(t, r.has(1, 60, 80))
	require.True(t, r.Has(column(1)))
	require.EqualValues(t, 1, r.Stats().DiskHits)
}

// TestPartsShareWhatPasses: scans of parts that are open at the same time read a column from disk once, though there is no
// room to keep it. For few rows the disk is not asked if columns that pass take a quarter of the limit.
//
// spec: disk-7
func TestPartsShareWhatPasses(t *testing.T) {
	t.Parallel()
	disk := &keeping{values: map[chunkcache.ChunkID][]int64{}}
	r := newRig(t, 4, func(o *chunkcache.Options) { o.Disk = disk })
	disk.r = r
	for i := range 8 {
		r.fillPart(i, 0, rows)
		if i < 4 {
			r.Drop("")
		}
	}
	find := func(i, from, to int) *chunkcache.Pinned {
		return r.Find(context.Background(), column(i), chunkcache.Wanted{Rows: rows, From: int64(from), To: int64(to)})
	}
	one := find(0, 0, 10)
	require.True(t, r.has(0, 100, rows))
	require.Equal(t, 1, disk.reads)
	one.Release()
	require.False(t, r.Has(column(0)), "there is no room")

	var faster *chunkcache.Pinned
	disk.during = func() { faster = find(0, 0, 10) }
	two := find(0, 20, 30)
	require.Equal(t, 3, disk.reads)
	held := r.budget.Used()
	three := find(0, 30, 40)
	require.Equal(t, held, r.budget.Used())
	faster.Release()
	two.Release()
	require.True(t, r.has(0, 0, rows), "the last scan still reads it")
	require.Equal(t, 3, disk.reads)

	full := find(1, 0, rows)
	require.NotNil(t, full)
	require.Nil(t, find(2, 0, 10))
	require.True(t, r.has(2, 0, rows))
	full.Release()
	three.Release()
	require.True(t, r.has(2, 0, 10))
}

// TestPartsThatDisappearLeaveNoMemory, also if the scan then finds the column that another one has from disk.
func TestPartsThatDisappearLeaveNoMemory(t *testing.T) {
	t.Parallel()
	disk := &keeping{values: map[chunkcache.ChunkID][]int64{}}
	lost := false
	r := newRig(t, 4, func(o *chunkcache.Options) {
		o.Disk = disk
		o.Lose = func(chunkcache.ChunkID) bool {
			now := lost
			lost = false
			return now
		}
	})
	disk.r = r
	r.fillPart(1, 0, rows)
	r.Drop("")
	r.fillPart(1, 0, 10)
	busy := r.part(1, 10, 20)
	defer busy.fill.Abandon()
	passing := r.Find(context.Background(), column(1), chunkcache.Wanted{Rows: rows, To: rows})
	lost = true
	require.True(t, r.has(1, 0, 10))
	require.False(t, lost)
	passing.Release()
	require.Zero(t, r.budget.Used())
}

// keeping is a Disk that keeps values.
type keeping struct {
	r      *rig
	values map[chunkcache.ChunkID][]int64
	reads  int
	during func() // called by the next Get, once
}

func (k *keeping) Put(of chunkcache.ChunkID, values chunkcache.StoredColumn, done func()) {
	for _, a := range values.Arrays {
		k.values[of] = append(k.values[of], a.(*array.Int64).Int64Values()...)
	}
	done()
}

func (k *keeping) Get(_ context.Context, of chunkcache.ChunkID, want chunkcache.Wanted) (*chunkcache.StoredColumn, bool) {
	from := k.values[of]
	if during := k.during; during != nil {
		k.during = nil
		during()
	}
	if len(from) == 0 {
		return nil, false
	}
	k.reads++
	held, err := want.Reserve(unit)
	if err != nil {
		return nil, false
	}
	return &chunkcache.StoredColumn{Arrays: []arrow.Array{k.r.values(int(from[0]), len(from))}, Held: held, Cost: 70}, true
}

// TestPartsUnderLoad fills and reads random parts of columns in several goroutines, while others take the memory.
func TestPartsUnderLoad(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // of found
	draw := drawing(5, 6)
	r := newRig(t, 8, func(o *chunkcache.Options) {
		o.Budget = budget.New(20 * unit)
		o.Lose = func(chunkcache.ChunkID) bool { return draw(60) == 0 }
	})
	var group sync.WaitGroup
	var found int64
	for range 4 {
		group.Go(func() {
			for range 4000 {
				i, from := draw(12), draw(rows)
				to := from + 1 + draw(rows-from)
				if r.has(i, from, to) {
					mu.Lock()
					found++
					mu.Unlock()
					continue
				}
				p := r.part(i, from, to)
				for p.fill != nil && p.at < to && draw(30) > 0 {
					p.add(min(1+draw(40), to-p.at), time.Duration(draw(3000)))
				}
				if p.fill != nil {
					p.fill.Commit()
				}
				if s := r.Stats(); s.Bytes > s.Limit {
					t.Errorf("%d bytes, beyond %d", s.Bytes, s.Limit)
				}
				if err := r.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() { r.disturb(draw, 40) })
	group.Wait()
	require.NoError(t, r.Check())
	require.LessOrEqual(t, r.budget.Peak(), r.budget.Limit())
	require.Positive(t, found)
	require.Positive(t, r.Stats().Filled)
}
