package chunkcache_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// spareFill begins a scan that fills spare room; nil: the cache refuses it.
func (r *rig) spareFill(i, from, to int) *part {
	f := r.Fill(chunkcache.Filling{Column: column(i), Table: "t", Rows: rows, From: int64(from), To: int64(to), Spare: true})
	if f == nil {
		return nil
	}
	return &part{r, f, i, from}
}

// fillSpare fills spare room with a column, and reports whether it is kept.
func (r *rig) fillSpare(i int) bool {
	if p := r.spareFill(i, 0, rows); p != nil {
		for range arrays {
			p.add(rows/arrays, time.Hour)
		}
		p.fill.Commit()
	}
	return r.Has(column(i))
}

// TestSpareRoomIsFilledAtOnce, until another column needs it, however cheap that is to decode.
//
// spec: cache-13
func TestSpareRoomIsFilledAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4, nil)
	require.True(t, r.fill(0, time.Microsecond, true))
	for i := range 3 {
		require.True(t, r.fillSpare(1+i))
	}
	require.False(t, r.fillSpare(9), "nothing leaves for it")
	require.Zero(t, r.Stats().Evicted+r.Stats().Passed)
	require.True(t, r.Has(column(0)))
	for i := range 3 {
		require.True(t, r.fill(10+i, time.Nanosecond, true))
		require.True(t, r.Has(column(0)), "what is spare leaves first")
	}
	require.False(t, r.fillSpare(8))
	require.EqualValues(t, 3, r.Stats().Evicted)
}

// TestSpareColumnsThatAreReadStay as others do: a scan that finds one is the second one that reads it. Only then is it offered
// to the disk.
//
// spec: cache-13
func TestSpareColumnsThatAreReadStay(t *testing.T) {
	t.Parallel()
	disk := &slow{puts: map[chunkcache.ChunkID]int{}}
	r := newRig(t, 2, func(o *chunkcache.Options) { o.Disk = disk })
	disk.r = r
	require.True(t, r.fillSpare(1))
	require.True(t, r.fillSpare(2))
	require.Empty(t, disk.puts)
	r.find(2).Release() // reads nothing
	require.Empty(t, disk.puts)
	p := r.find(1)
	require.NoError(t, check(t, p, 1, 50))
	p.Release()
	require.Equal(t, map[chunkcache.ChunkID]int{column(1): arrays}, disk.puts)
	require.True(t, r.fill(3, time.Nanosecond, true))
	require.True(t, r.Has(column(1)))
	require.False(t, r.Has(column(2)))
	require.False(t, r.fill(4, time.Nanosecond, true), "all are as dear")
	require.True(t, r.fill(2, 1<<40, false), "its first reading is not forgotten")
	p = r.find(2)
	require.NoError(t, check(t, p, 2, 50))
	p.Release()
	require.Len(t, disk.puts, 3, "once each")
}

// TestSpareColumnsThatAreFilledLeave: one that a scan is filling takes no room from another, and a scan that reads its rows for
// the second time makes it stay.
//
// spec: cache-13
func TestSpareColumnsThatAreFilledLeave(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2, nil)
	p := r.spareFill(1, 0, rows)
	require.True(t, p.add(rows/2, time.Hour))
	require.True(t, r.fill(2, time.Nanosecond, true))
	require.True(t, r.fill(3, time.Nanosecond, true))
	require.False(t, p.add(rows/2, time.Hour))
	p.fill.Commit()
	require.False(t, r.Has(column(1)))

	r.Drop("")
	p = r.spareFill(4, 0, rows/2)
	require.True(t, p.add(rows/2, time.Hour))
	p.fill.Commit()
	p = r.spareFill(4, rows/2, rows)
	require.True(t, p.add(rows/2, time.Hour))
	again := r.spareFill(4, rows/4, rows) // 3/2 of its rows were read before
	require.NotNil(t, again)
	again.fill.Abandon()
	p.fill.Commit()
	require.True(t, r.fill(2, time.Nanosecond, true))
	require.False(t, r.fill(3, time.Nanosecond, true))
	require.True(t, r.Has(column(4)))
}

// TestSpareRoomNeedsPlentifulMemory: nothing that is kept is given up for it, and it is given up first.
//
// spec: cache-5, cache-13
func TestSpareRoomNeedsPlentifulMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, func(o *chunkcache.Options) { o.Budget = budget.New(100 * unit) })
	require.True(t, r.fill(1, time.Nanosecond, true))
	others, err := r.budget.Reserve("others", 51*unit)
	require.NoError(t, err)
	require.False(t, r.fillSpare(3))
	others.Release()
	require.True(t, r.fillSpare(2))
	others, err = r.budget.Reserve("others", 99*unit)
	require.NoError(t, err)
	require.False(t, r.Has(column(2)))
	require.True(t, r.Has(column(1)))
	others.Release()

	kept, err := r.budget.Reserve("what is kept", 90*unit)
	require.NoError(t, err)
	r.budget.AddIdle(90 * unit)
	given := false
	r.budget.OnLack(func(int64) { given = true })
	for i := range 9 {
		r.fillSpare(10 + i)
	}
	require.False(t, given)
	r.budget.AddIdle(-90 * unit)
	kept.Release()
}

// TestSpareTextsNeedFreeMemory: the copy of a dictionary takes nothing that is kept.
//
// spec: cache-13
func TestSpareTextsNeedFreeMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	kept, err := r.budget.Reserve("what is kept", r.budget.Limit()-50)
	require.NoError(t, err)
	r.budget.AddIdle(kept.Held())
	r.budget.OnLack(func(int64) { t.Error("memory is given up") })
	s := &textScan{r: r, i: 1, dictionary: r.textScanDictionary(1)}
	s.fill = r.Fill(chunkcache.Filling{Column: textID(1), Table: "t", Rows: rows, To: rows, Spare: true})
	require.Nil(t, s.add(rows))
	require.Zero(t, s.copies)
	s.end(true)
	r.budget.AddIdle(-kept.Held())
	kept.Release()
}
