package lane_test

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/lane"
)

// permuted are the rows of a world's lane whose windows are given from the last row to
// the first.
func permuted(p *ranges, number int) []int64 {
	var rows []int64
	at := int64(1000 * number)
	for _, n := range p.rows[number] {
		for from := int64(0); from < n; from += p.window {
			for i := min(from+p.window, n) - 1; i >= from; i-- {
				rows = append(rows, at+i)
			}
		}
		at += n
	}
	return rows
}

// TestRowsOfWindows: a lane gives the rows of its windows in their order, and goes on
// from each position with the very next one.
//
// spec: order-22, cursor-23
func TestRowsOfWindows(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		for _, window := range []int64{1, 2, 3, 4, 5, 100} {
			for q := int64(1); q < 12; q++ {
				p := world(t, map[int][]int64{1: {7, 2, 9}})
				p.window = window
				want := permuted(p, 1)
				batches, at := drain(t, p.reader(q, lane.Unknown, known, lane.Lane{Number: 1}))
				require.Equal(t, want, slices.Concat(batches...))
				given := 0
				for i, position := range at {
					given += len(batches[i])
					rest, _ := drain(t, p.reader(3, lane.Unknown, known, lane.Lane{Number: 1, Start: position[0]}))
					require.Equal(t, want[given:], append([]int64{}, slices.Concat(rest...)...), "known %v, windows of %d, %d rows a batch, from %v", known, window, q, position)
				}
			}
		}
	}
}

// TestWindowsArePaidFor: rows that stay behind their window are reserved until the batch
// is cut, and the batch until it is released.
func TestWindowsArePaidFor(t *testing.T) {
	t.Parallel()
	for _, q := range []int64{1, 4, 7, 40} {
		p := world(t, map[int][]int64{1: {30, 2}, 3: {8, 19}})
		p.window = 5
		b := budget.New(1 << 20)
		r := p.paying(q, b, 0, lane.Lane{Number: 1}, lane.Lane{Number: 3})
		rows := map[int64]bool{}
		for r.Next() {
			one := r.RecordBatch()
			for _, row := range one.Column(0).(*array.Int64).Int64Values() {
				rows[row] = true
			}
			require.Positive(t, b.Used())
		}
		require.NoError(t, r.Err())
		r.Release()
		require.Zero(t, b.Used())
		require.Len(t, rows, 59)
	}
}
