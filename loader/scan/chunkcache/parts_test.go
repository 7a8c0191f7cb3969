package chunkcache_test

import (
	"context"
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
