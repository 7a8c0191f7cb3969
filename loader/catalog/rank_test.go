package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
)

func TestChain(t *testing.T) {
	t.Parallel()
	parents := map[int64]int64{50: 40, 40: 30, 30: 20, 20: 0, 99: 98, 98: 99}
	parent := func(id int64) (int64, bool) {
		above, known := parents[id]
		return above, known
	}
	ranks := func(pinned int64, snapshots ...int64) []int {
		chain := catalog.NewChain(pinned, parent)
		out := make([]int, len(snapshots))
		for i, s := range snapshots {
			out[i] = chain.Rank(s)
		}
		return out
	}
	require.Equal(t, []int{1, 2, 3, 4, catalog.Unranked, catalog.BeforeRanks}, ranks(50, 20, 30, 40, 50, 99, 7),
		"one that is known stands elsewhere, one that is not has expired")
	require.Equal(t, []int{1, 2, catalog.Unranked}, ranks(30, 20, 30, 40))
	delete(parents, 30)
	require.Equal(t, []int{catalog.BeforeRanks, catalog.BeforeRanks, 1, 2, catalog.BeforeRanks, catalog.BeforeRanks}, ranks(50, 20, 30, 40, 50, 99, 7))
	require.Equal(t, []int{2, 1, catalog.BeforeRanks}, ranks(99, 99, 98, 7), "parents in a circle end")
}
