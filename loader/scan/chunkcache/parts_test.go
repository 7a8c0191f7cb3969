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

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// part is a scan of rows of a column that fills the cache.
type part struct {
	r    *rig
	fill *chunkcache.Fill // nil: the cache refused it
	i    int
	at   int
}

// part begins to fill the cache with rows of a column.
func (r *rig) part(i, from, to int) *part {
	return &part{r, r.Fill(chunkcache.Filling{Column: column(i), Table: "t", Rows: rows, From: int64(from), To: int64(to), Repeated: true}), i, from}
}

// add adds the next rows, and reports whether the cache took them.
func (p *part) add(n int, took time.Duration) bool {
	a := p.r.values(1000*p.i+p.at, n)
	defer a.Release()
	p.at += n
	view := p.fill.Add(chunkcache.Decoded{Array: a, Took: took, Charge: func(bytes int64) *budget.Reservation {
		held, err := p.r.budget.Reserve("a column", bytes)
		if err != nil {
			return nil
		}
		return held
	}})
	if view == nil {
		return false
	}
	view.Release()
	return true
}

// fillPart fills the cache with rows of a column, in one array.
func (r *rig) fillPart(i, from, to int) {
	if p := r.part(i, from, to); p.fill != nil {
		p.add(to-from, time.Microsecond)
		p.fill.Commit()
	}
}

// has reports whether rows of a column are found, and checks their values.
func (r *rig) has(i, from, to int) bool {
	p := r.Find(context.Background(), column(i), chunkcache.Wanted{Rows: rows, From: int64(from), To: int64(to)})
	if p == nil {
		return false
	}
	defer p.Release()
	p.Skip(int64(from))
	for at := from; at < to; {
		a, err := p.Read(min(max(p.Rows(), 1), int64(to-at)), memory.DefaultAllocator)
		if err != nil {
			require.ErrorIs(r.t, err, chunkcache.ErrGone)
			return false
		}
		for j, v := range a.(*array.Int64).Int64Values() {
			if v != int64(1000*i+at+j) {
				r.t.Errorf("row %d of column %d is %d", at+j, i, v)
			}
		}
		at += a.Len()
		a.Release()
	}
	return true
}

// size returns the bytes of an array of n rows, whose buffers are multiples of 64 bytes.
func size(n int) int64 { return 64 + int64(n*8+63)/64*64 }

// TestPartsMakeAColumn: scans of parts of a row group fill the cache together. What is there is found even before
// all rows are.
//
// spec: cache-9
func TestPartsMakeAColumn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	r.fillPart(1, 100, 128)
	r.fillPart(1, 20, 60)
	require.True(t, r.has(1, 110, 128))
	require.True(t, r.has(1, 20, 60))
	require.False(t, r.has(1, 19, 60))
	require.False(t, r.has(1, 50, 110))
	require.False(t, r.Has(column(1)))
	require.EqualValues(t, 1, r.Stats().Partial)
	require.EqualValues(t, 1, r.Stats().Units)
	r.fillPart(1, 60, 100)
	require.True(t, r.has(1, 30, 110))
	require.Zero(t, r.Stats().Filled)
	r.fillPart(1, 0, 20)
	require.True(t, r.Has(column(1)))
	require.True(t, r.has(1, 0, rows))
	require.EqualValues(t, 1, r.Stats().Filled)
	require.Zero(t, r.Stats().Partial)
	require.Nil(t, r.part(1, 5, 9).fill, "it is there")
}

// TestRowsThatOverlap are kept once as far as possible: an array whose rows are there is not added, and a larger one takes
// the place of those within it.
func TestRowsThatOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	r.fillPart(1, 40, 50)
	r.fillPart(1, 60, 70)
	p := r.part(1, 30, 80)
	require.True(t, p.add(14, 1))
	require.False(t, p.add(6, 1), "44 to 50 are there")
	require.True(t, p.add(30, 1))
	p.fill.Commit()
	require.True(t, r.has(1, 30, 80))
	require.Equal(t, size(10)+size(14)+size(30), r.Stats().Bytes, "60 to 70 were dropped")
	one, two := r.part(1, 0, 30), r.part(1, 0, 29)
	require.Nil(t, r.part(1, 0, 30).fill, "another scan adds just these rows")
	require.True(t, one.add(30, 1))
	require.True(t, two.add(29, 1))
	before := r.Stats().Bytes
	one.fill.Commit()
	two.fill.Commit()
	require.Less(t, r.Stats().Bytes, before, "the second one was dropped")
	require.True(t, r.has(1, 0, 80))
}

// TestPinnedRowsStay while a larger array comes that has them, too.
func TestPinnedRowsStay(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	r.fillPart(1, 40, 50)
	p := r.Find(context.Background(), column(1), chunkcache.Wanted{Rows: rows, From: 40, To: 50})
	r.fillPart(1, 0, 100)
	p.Skip(40)
	a, err := p.Read(10, memory.DefaultAllocator)
	require.NoError(t, err)
	require.Equal(t, []int64{1040, 1041}, a.(*array.Int64).Int64Values()[:2])
	a.Release()
	p.Release()
	require.True(t, r.has(1, 0, 100))
}

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

// TestManyOverlapsBeginAgain: a column whose arrays have too many rows twice is dropped, and filled again.
func TestManyOverlapsBeginAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	for from := range 30 {
		r.fillPart(1, from, from+40)
		require.LessOrEqual(t, r.Stats().Bytes, int64(2*unit))
	}
	r.fillPart(1, 0, rows)
	require.True(t, r.Has(column(1)))
}

// TestShortArraysAreRead as one, up to the next row that is missing. Long ones are views.
func TestShortArraysAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	for _, from := range []int{0, 10, 30, 60} {
		r.fillPart(1, from, from+10)
	}
	r.fillPart(1, 20, 30)
	p := r.Find(context.Background(), column(1), chunkcache.Wanted{Rows: rows, From: 5, To: 40})
	defer p.Release()
	p.Skip(5)
	for _, n := range []int64{3, 12, 8, 12} {
		before := p.Rows()
		own := memory.NewCheckedAllocator(batch.Default())
		a, err := p.Read(n, own)
		require.NoError(t, err)
		require.Equal(t, before-n, p.Rows())
		require.Equal(t, n != 3 && n != 8, p.LastRead().Copied)
		require.Equal(t, p.LastRead().Copied, own.CurrentAlloc() > 0)
		require.InDelta(t, 19.2*float64(n), float64(p.LastRead().Bytes), 3, "ten rows take 192 bytes")
		require.Equal(t, 1040-before, a.(*array.Int64).Value(0))
		require.Equal(t, 1040-before+n-1, a.(*array.Int64).Value(int(n-1)))
		a.Release()
		own.AssertSize(t, 0)
	}
	require.Zero(t, p.Rows())
	require.EqualValues(t, 1, r.Stats().Hits)
	r.fillPart(1, 40, 60)
	q := r.Find(context.Background(), column(1), chunkcache.Wanted{Rows: rows, From: 5, To: 70})
	defer q.Release()
	r.Drop("")
	_, err := q.Read(30, memory.DefaultAllocator)
	require.ErrorIs(t, err, chunkcache.ErrGone)
}

// TestLongArraysAreNotCopied: what is copied at once has at most 1,024 rows, and 256 KiB.
func TestLongArraysAreNotCopied(t *testing.T) {
	t.Parallel()
	for width, want := range map[int][]int64{1: {1024, 9076, 200_000}, 2000: {128, 9972, 200_000}} {
		c := chunkcache.New(chunkcache.Options{Budget: budget.New(1 << 40), Clock: time.Now, Limit: 1 << 40})
		const all = 210_100
		fill := c.Fill(chunkcache.Filling{Rows: all, To: all, Repeated: true})
		for _, n := range []int{100, 10_000, 200_000} {
			a := batch.Nulls(&arrow.FixedSizeBinaryType{ByteWidth: width}, n, memory.DefaultAllocator)
			fill.Add(chunkcache.Decoded{Array: a, Charge: func(int64) *budget.Reservation { return &budget.Reservation{} }}).Release()
			a.Release()
		}
		fill.Commit()
		p := c.Find(context.Background(), chunkcache.ChunkID{}, chunkcache.Wanted{Rows: all, To: all})
		var got []int64
		for p.Rows() > 0 {
			got = append(got, p.Rows())
			p.Skip(p.Rows())
		}
		p.Release()
		require.Equal(t, want, got)
	}
}

// TestEndedScansAddNothing: the rows of a scan that ended early are not kept, those of others are.
func TestEndedScansAddNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	r.fillPart(1, 0, 10)
	for _, end := range []func(*chunkcache.Fill){(*chunkcache.Fill).Abandon, (*chunkcache.Fill).Commit} {
		p := r.part(1, 10, 30)
		require.True(t, p.add(10, 1))
		end(p.fill)
	}
	require.True(t, r.has(1, 0, 10))
	require.False(t, r.has(1, 0, 20))
	require.Equal(t, size(10), r.Stats().Bytes)
	p := r.part(2, 0, 30)
	require.True(t, p.add(10, 1))
	p.fill.Abandon()
	require.EqualValues(t, 1, r.Stats().Units)
	require.Equal(t, size(10), r.Stats().Bytes)
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

// TestOneSlowArrayIsNoMeasure: a full cache keeps what it has if decoding an array of another row group of the same column
// took long once.
//
// spec: cache-6
func TestOneSlowArrayIsNoMeasure(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	for group := range 30 {
		of := column(1)
		of.RowGroup = group
		took := time.Duration(10000)
		if group == 20 {
			took *= 8
		}
		f := r.Fill(chunkcache.Filling{Column: of, Rows: rows, To: rows, Repeated: true})
		p := &part{r: r, fill: f, i: 1}
		require.Equal(t, group < 11, p.add(rows, took), group)
		f.Commit()
	}
	require.Zero(t, r.Stats().Evicted)
}

// TestSecondReadingOfPartsFills: with as many rows read as the column has, no matter in which parts.
//
// spec: cache-4
func TestSecondReadingOfPartsFills(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10, nil)
	read := func(from, to int64) bool {
		f := r.Fill(chunkcache.Filling{Column: column(1), Rows: rows, From: from, To: to})
		if f != nil {
			f.Abandon()
		}
		return f != nil
	}
	require.False(t, read(100, rows))
	require.False(t, read(0, 50))
	require.False(t, read(50, 100))
	require.True(t, read(70, 90))
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
