package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
)

// TestWaysDealEachRowOnce: every way to deal gives each row to one lane, and lanes of equal lengths.
func TestWaysDealEachRowOnce(t *testing.T) {
	t.Parallel()
	for _, of := range []layout{{name: "days", rows: 100_000, days: 5, skew: 0.3}, {name: "plain", rows: 100_003, days: 1}} {
		l, err := of.drawn()
		require.NoError(t, err)
		for _, w := range ways() {
			p, err := w.deal(t.Context(), l, dataset.Rows{Order: dataset.Shuffled, Seed: 3, Epoch: 2, Lanes: 6})
			require.NoError(t, err)
			dealt := map[int][]span{}
			for _, lane := range p.Lanes {
				rows := int64(0)
				for _, r := range lane.Ranges {
					require.Less(t, r.From, r.To)
					dealt[r.Split] = append(dealt[r.Split], span{r.From, r.To})
					rows += r.To - r.From
				}
				require.Equal(t, lane.Rows, rows)
				require.InDelta(t, float64(p.StoredRows)/6, rows, 1, "%s, %s", of.name, w.name)
			}
			for i, s := range p.Splits {
				rows := int64(0)
				for _, d := range dealt[i] {
					rows += d.to - d.from
				}
				require.Equal(t, s.Rows, rows)
				require.True(t, covered(dealt[i], span{0, s.Rows}), "%s, %s", of.name, w.name)
			}
		}
	}
}

// TestCachesKeepWhatWasUsedLast: an entry is a hit only where its rows were used before, and as long as no later entries needed its
// room.
func TestCachesKeepWhatWasUsedLast(t *testing.T) {
	t.Parallel()
	c := newLRU(10)
	require.False(t, c.use("a", span{0, 5}, 4))
	require.True(t, c.use("a", span{1, 4}, 4))
	require.False(t, c.use("a", span{4, 8}, 4), "rows that were not used")
	require.True(t, c.use("a", span{2, 7}, 4), "rows that two uses cover")
	require.False(t, c.use("b", span{0, 1}, 4))
	require.True(t, c.use("a", span{0, 1}, 4))
	require.False(t, c.use("c", span{0, 1}, 4), "which drops b")
	require.True(t, c.use("a", span{0, 1}, 4))
	require.False(t, c.use("b", span{0, 1}, 4))
	require.False(t, c.use("large", span{0, 1}, 11))
	require.False(t, c.use("large", span{0, 1}, 11), "too large to be kept")
}

// TestSlotsBoundShards: replicas take at most as many shards as they have slots, and each shard keeps its replica if another one is
// removed.
func TestSlotsBoundShards(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1, unevenness(placed("d", 64, 8, 8), 8), 0)
	for shard, of := range placed("d", 64, 8, 0) {
		if of < 7 {
			require.Equal(t, of, placed("d", 64, 7, 0)[shard])
		}
	}
}

// TestRepeatedReadsCostNothing: with room for everything, the second epoch reads nothing if lanes keep their rows.
func TestRepeatedReadsCostNothing(t *testing.T) {
	t.Parallel()
	of := layout{name: "days", rows: 100_000, days: 5, trainingBytes: 80, stagingBytes: 20}
	l, err := of.drawn()
	require.NoError(t, err)
	for _, w := range ways()[2:4] { // dealt once
		j := newJob(l, 4, limits{1 << 40, 1 << 40})
		var read []counts
		for epoch := range int64(2) {
			p, err := w.deal(t.Context(), l, dataset.Rows{Order: dataset.Shuffled, Epoch: epoch, Lanes: 8})
			require.NoError(t, err)
			read = append(read, j.epoch(p))
		}
		require.GreaterOrEqual(t, read[0].training, total(l.trainingBytes))
		require.GreaterOrEqual(t, read[0].staging, total(l.stagingBytes))
		require.Zero(t, read[1].training+read[1].staging, w.name)
		require.Equal(t, read[1].asked, read[1].hit, w.name)
	}
}
