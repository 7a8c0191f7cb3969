package lane_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/lane"
)

// TestPositionsNameWindows: from each position a lane continues with the next row.
//
// spec: cursor-23
func TestPositionsNameWindows(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		for _, window := range []int64{1, 2, 3, 4, 5, 100} {
			for q := int64(1); q < 12; q++ {
				p := world(t, map[int][]int64{1: {7, 2, 9}})
				p.window = window
				batches, at := drain(t, p.reader(q, lane.Unknown, known, lane.Lane{Number: 1}))
				want := slices.Concat(batches...)
				require.Len(t, want, 18)
				given := 0
				for i, position := range at {
					given += len(batches[i])
					require.LessOrEqual(t, position[0].Row, window)
					rest, _ := drain(t, p.reader(3, lane.Unknown, known, lane.Lane{Number: 1, Start: position[0]}))
					require.Equal(t, want[given:], append([]int64{}, slices.Concat(rest...)...), "known %v, windows of %d, %d rows a batch, from %v", known, window, q, position)
				}
			}
		}
	}
}
