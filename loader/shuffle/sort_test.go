package shuffle

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSortRows: rows are sorted by priority, with ties in their order, whatever the
// priorities are.
func TestSortRows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		priorities := make([]uint64, r.IntN(300))
		mask := ^uint64(0) << r.IntN(64) >> r.IntN(64) // many are equal, or share their first bits
		for i := range priorities {
			priorities[i] = r.Uint64() & mask
			if i > 0 && r.IntN(3) == 0 {
				priorities[i] = priorities[i-1]
			}
		}
		var parts [][]uint64
		for rest := priorities; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		type place struct{ batch, row int32 }
		want, got := []place{}, []place{}
		for i, part := range parts {
			for k := range part {
				want = append(want, place{int32(i), int32(k)})
			}
		}
		slices.SortStableFunc(want, func(a, b place) int { return cmp.Compare(parts[a.batch][a.row], parts[b.batch][b.row]) })
		sorted := sortRows(parts)
		for i, b := range sorted.batches {
			got = append(got, place{b, sorted.numbers[i]})
		}
		require.Equal(t, want, got, "seed %d", seed)
	}
}

// TestPrioritiesNeverChange: a different draw would change the order of every seed.
//
// spec: order-24
func TestPrioritiesNeverChange(t *testing.T) {
	t.Parallel()
	require.Equal(t, []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x910a2dec89025cc1}, []uint64{draw(0, 0), draw(0, 1), draw(1, 0)})
}
