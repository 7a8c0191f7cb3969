package shuffle

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// TestWindowsOfRemainingRows: however the remaining rows are split into batches, each window
// returns them by priority, and reserves what it keeps.
//
// spec: order-22
func TestWindowsOfRemainingRows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, seed%2 == 0)
		b := budget.New(1 << 20)
		in, o := blocks{r.Int64N(50), 1 + r.Int64N(60)}, Options{Memory: w.memory, Budget: b}
		var left, want []int64
		for ordinal := in.first; ordinal < in.first+200; ordinal++ {
			if r.IntN(3) > 0 {
				left = append(left, ordinal)
			}
		}
		want = slices.Clone(left)
		slices.SortFunc(want, func(x, y int64) int {
			return cmp.Or(cmp.Compare(in.of(x), in.of(y)), cmp.Compare(priorityOf(x), priorityOf(y)))
		})
		windows := w.windows(t, w.part(left, 1+r.IntN(20), in), o, JoinedColumns{})
		got := given(t, windows, func(rows arrow.RecordBatch) {
			require.GreaterOrEqual(t, b.Used(), batch.ArraySize(rows.Column(0)), "what is kept is reserved")
		})
		require.NoError(t, windows.Err())
		windows.Release()
		require.Equal(t, want, got)
		require.Zero(t, b.Used())

		skip := int64(0) // of the first window
		for skip < int64(len(want)) && in.of(want[skip]) == 0 {
			skip++
		}
		if skip == 0 {
			continue
		}
		skip = r.Int64N(skip + 1)
		windows = w.windows(t, w.part(left, 7, in), o, JoinedColumns{Skip: skip})
		require.Equal(t, want[skip:], given(t, windows, func(arrow.RecordBatch) {}))
		windows.Release()
	}
}

// TestWindowsOfSeveralParts: a window has the rows of its blocks in all parts, also if some have none, in the order of
// their priorities; rows of equal priority come as they are stored, whichever part they are of.
//
// spec: order-22, order-23
func TestWindowsOfSeveralParts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, seed%2 == 0)
		b := budget.New(1 << 20)
		rows := 1 + r.Int64N(20)
		var parts []PartRows
		want := map[int64][]int64{}
		for i := range 1 + r.Int64N(9) {
			in := blocks{i * 100, rows}
			var left []int64
			for ordinal := in.first; ordinal < in.first+r.Int64N(100); ordinal++ {
				if r.IntN(3) > 0 {
					left = append(left, ordinal)
					want[in.of(ordinal)] = append(want[in.of(ordinal)], ordinal)
				}
			}
			parts = append(parts, w.part(left, 1+r.IntN(20), in))
		}
		r.Shuffle(len(parts), func(i, k int) { parts[i], parts[k] = parts[k], parts[i] })
		ended, closed := 0, 0
		windows, err := NewWindows(t.Context(), parts, JoinedColumns{
			Ordinal: 1, Priority: 2, BatchRows: 7, Ended: func() error { ended++; return nil }, Closed: func() { closed++ },
		}, Options{Memory: w.memory, Budget: b})
		require.NoError(t, err)
		got, last := map[int64][]int64{}, int64(-1)
		for windows.Next() {
			require.GreaterOrEqual(t, windows.Window(), last)
			last = windows.Window()
			if seed%2 == 1 { // otherwise all parts have one dictionary, which lacks values of some
				requireColumns(t, windows.RecordBatch())
			}
			for _, value := range windows.RecordBatch().Column(0).(*array.Int64).Int64Values() {
				got[last] = append(got[last], value/10)
			}
		}
		require.NoError(t, windows.Err())
		windows.Release()
		require.Equal(t, 1, ended)
		require.Equal(t, 1, closed)
		for window := range want {
			slices.SortFunc(want[window], func(x, y int64) int { return cmp.Compare(priorityOf(x), priorityOf(y)) })
		}
		require.Equal(t, want, got)
		require.Zero(t, b.Used())
	}
}

// TestWindowsRefuse: a position that a window does not have ends the stream, and so does a
// window that does not fit in memory.
func TestWindowsRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	for name, at := range map[string]struct {
		start int64
		left  []int64 // from there on
		rows  int
	}{
		"too few":     {0, []int64{0, 1, 2, 5}, 3},
		"none":        {1, []int64{9, 10, 11, 12, 13}, 0},
		"none at all": {2, nil, 0},
	} {
		windows := w.windows(t, w.part(at.left, 2, blocks{0, 4}), Options{Memory: w.memory}, JoinedColumns{Start: at.start, Skip: 4})
		require.False(t, windows.Next(), name)
		require.Equal(t, fault.Invalid, fault.KindOf(windows.Err()), name)
		require.ErrorContains(t, windows.Err(), fmt.Sprintf("window %d has %d rows, but the cursor is at row 4", at.start, at.rows), name)
		windows.Release()
	}

	many := make([]int64, 900)
	for i := range many {
		many[i] = int64(i)
	}
	b := budget.New(20_000)
	windows := w.windows(t, w.part(many, 50, blocks{0, 1000}), Options{Memory: w.memory, Budget: b}, JoinedColumns{})
	require.False(t, windows.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(windows.Err()))
	require.Contains(t, fault.As(windows.Err()).Remedy, "a smaller shuffle_window")
	require.LessOrEqual(t, b.Peak(), int64(20_000))
	windows.Release()
	require.Zero(t, b.Used())
}

// TestPrefetchedIsReleasedForAWindow: a window that lacks memory releases what was prefetched,
// once, before it fails.
//
// spec: join-63
func TestPrefetchedIsReleasedForAWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	rows := make([]int64, 100)
	for i := range rows {
		rows[i] = int64(i)
	}
	b := budget.New(1 << 20)
	ahead, err := b.Reserve("what is done ahead", 1<<20)
	require.NoError(t, err)
	asked := 0
	o := Options{Memory: w.memory, Budget: b, ReleasePrefetched: func() bool {
		asked++
		ahead.Release()
		return asked == 1
	}}
	windows := w.windows(t, w.part(rows, 50, blocks{0, 100}), o, JoinedColumns{})
	require.Len(t, given(t, windows, func(arrow.RecordBatch) {}), 100)
	require.NoError(t, windows.Err())
	require.Equal(t, 1, asked)
	windows.Release()
	require.Zero(t, b.Used())
}

// TestMergedDictionariesAreNotReserved: the dictionaries of several build sides, which reserve them, are reserved by a window
// only until what it needs of them is merged.
func TestMergedDictionariesAreNotReserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	used := map[int64]int64{}
	for _, count := range []int64{1, 8} {
		b := budget.New(1 << 30)
		var parts []PartRows
		for i := range count {
			rows := make([]int64, 100/count)
			for k := range rows {
				rows[k] = 1000*i + int64(k)
			}
			side := newWorld(t, true) // with a dictionary of its own
			parts = append(parts, side.part(rows, 100, blocks{1000 * i, 1000}))
			side.offset = 1000 * i
		}
		windows, err := NewWindows(t.Context(), parts, JoinedColumns{Ordinal: 1, Priority: 2, BatchRows: 10}, Options{Memory: w.memory, Budget: b})
		require.NoError(t, err)
		require.True(t, windows.Next())
		used[count] = b.Used()
		windows.Release()
		require.Zero(t, b.Used())
	}
	require.Less(t, used[8], used[1]+5000, "a dictionary of a side has more than 8,000 bytes")
}

// TestReservedRowsOfAWindow: a window is reserved once after it was permuted, what is permuted at a time besides, and
// what was returned of it is no longer reserved.
func TestReservedRowsOfAWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rows := make([]int64, 9000)
	for i := range rows {
		rows[i] = int64(i % 1000)
	}
	slices.Sort(rows)
	b := budget.New(1 << 30)
	windows := w.windows(t, w.part(rows, 3000, blocks{0, 9000}), Options{Memory: w.memory, Budget: b}, JoinedColumns{})
	require.True(t, windows.Next())
	begun, count := b.Used(), int64(len(rows))
	require.LessOrEqual(t, begun, count*(8+4+2+10+bytesOfOrder)*3/2)
	require.LessOrEqual(t, b.Peak(), begun+count*(bytesOfSorting+8))
	for windows.Next() {
		requireColumns(t, windows.RecordBatch())
		count = b.Used()
	}
	require.NoError(t, windows.Err())
	require.LessOrEqual(t, count, begun*2/3)
	windows.Release()
	require.Zero(t, b.Used())
}

// TestSmallBatchesOfAWindow: a window takes as much memory with batches of one row as with larger ones, since its columns are
// permuted into longer arrays.
func TestSmallBatchesOfAWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var rows []int64
	for i := range int64(2*minOutputRows + 700) {
		rows = append(rows, i/9)
	}
	b := budget.New(1 << 30)
	windows := w.windows(t, w.part(rows, 1000, blocks{0, int64(len(rows))}), Options{Memory: batch.NewAllocator(), Budget: b}, JoinedColumns{})
	windows.joined.BatchRows = 1
	require.True(t, windows.Next())
	begun := b.Used()
	require.LessOrEqual(t, begun, int64(len(rows))*(8+4+2+10+bytesOfOrder)*3/2)
	arrays := 0
	for _, outputs := range windows.window.outputs {
		arrays = max(arrays, len(outputs))
	}
	require.LessOrEqual(t, arrays, 3)
	read, last := 1, int64(0)
	for ; windows.Next(); read++ {
		one := windows.RecordBatch()
		require.EqualValues(t, 1, one.NumRows())
		require.Less(t, batch.OwnArraySize(one.Columns()...), int64(2000), "a batch keeps what is permuted with it")
		requireColumns(t, one)
		if last = b.Used(); read < minOutputRows {
			require.GreaterOrEqual(t, last, begun-2000, "an array is still read")
		}
	}
	require.NoError(t, windows.Err())
	require.Len(t, rows, read)
	require.Less(t, last, int64(len(rows))*bytesOfOrder+minOutputRows*(8+4+2+10)*2)
	windows.Release()
	require.Zero(t, b.Used())
}

// TestMergedReferencesAreReservedOnce: references to a merged dictionary replace those of the batches, also in what is reserved.
func TestMergedReferencesAreReservedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	b := budget.New(1 << 30)
	var parts []PartRows
	for i := range int64(4) {
		rows := make([]int64, 1000)
		for k := range rows {
			rows[k] = 1000*i + int64(k)/100
		}
		side := newWorld(t, true)
		side.offset = 1000 * i
		parts = append(parts, side.part(rows, 1000, blocks{1000 * i, 1000}))
	}
	windows, err := NewWindows(t.Context(), parts, JoinedColumns{Ordinal: 1, Priority: 2, BatchRows: 10}, Options{Memory: w.memory, Budget: b})
	require.NoError(t, err)
	require.True(t, windows.Next())
	used := batch.Retained{}
	for _, arrays := range slices.Concat(windows.window.columns, windows.window.outputs, [][]arrow.Array{slices.DeleteFunc(slices.Clone(windows.outputs), isNil)}) {
		used.Add(arrays)
	}
	for buffer, references := range windows.window.kept {
		assert.Positive(t, references)
		assert.Contains(t, used, buffer, "it was released")
	}
	windows.Release()
	require.Zero(t, b.Used())
}
