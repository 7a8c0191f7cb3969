package stats_test

import (
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/stats"
)

// The design effect is the sum of the squared sizes of clusters by the number of rows. The estimate does not depend on how rows are
// divided among several Clusters.
//
// spec: stats-58
func TestDesignEffects(t *testing.T) {
	hash := func(k int) uint64 { return xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, uint64(k))) }
	for name, size := range map[string]func(k int) int{
		"single rows": func(int) int { return 1 },
		"pairs":       func(int) int { return 2 },
		"frequent":    func(k int) int { return 1 + 5000/(k+1) },
	} {
		rows, squares := 0, 0
		all, halves := &stats.Clusters{}, [2]stats.Clusters{}
		for k := range 3000 {
			n := size(k)
			rows, squares = rows+n, squares+n*n
			for i := range n {
				all.Add(hash(k))
				halves[i%2].Add(hash(k))
			}
		}
		require.InEpsilon(t, float64(squares)/float64(rows), all.Effect(), 0.25, name)
		halves[0].Merge(&halves[1])
		require.Equal(t, *all, halves[0], name)
	}
	alone := &stats.Clusters{}
	require.InDelta(t, 1, alone.Effect(), 0)
	for range 10 {
		alone.AddAlone()
	}
	require.InDelta(t, 1, alone.Effect(), 0)
}
