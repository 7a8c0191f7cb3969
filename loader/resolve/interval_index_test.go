package resolve

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
)

// TestIntervalIndexMissesNothing compares with a scan of all files.
func TestIntervalIndexMissesNothing(t *testing.T) {
	t.Parallel()
	draw := func(r *rand.Rand) interval {
		low := r.Int64N(100)
		i := interval{low: expr.Int(low), high: expr.Int(low + r.Int64N(20))}
		if r.IntN(10) == 0 {
			i.low = expr.Value{}
		}
		if r.IntN(20) == 0 {
			i.high = expr.Value{}
		}
		if r.IntN(400) == 0 {
			i.low = expr.Text("of another kind")
		}
		return i
	}
	skipped := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		intervals, files := make([]interval, r.IntN(30)), []int32{}
		for i := range intervals {
			intervals[i] = draw(r)
			files = append(files, int32(i))
		}
		x := newIntervalIndex(files, func(i int32) interval { return intervals[i] })
		for range 10 {
			one := draw(r)
			found := x.overlapping(one)
			skipped += len(files) - len(found)
			for i, other := range intervals {
				if one.overlaps(other) {
					require.True(t, slices.Contains(found, int32(i)), "seed %d: %v and %v", seed, one, other)
				}
			}
		}
	}
	require.Greater(t, skipped, 10_000)
}
