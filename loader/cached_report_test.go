package loader_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/dataset"
)

// TestReportsCountWhatCameFromTheCache reads a table of 10 row groups of three columns several times. The reports add up
// to what the cache counts.
//
// spec: cache-10
func TestReportsCountWhatCameFromTheCache(t *testing.T) {
	t.Parallel()
	const rows, groups, columns = 5000, 10, 3
	table := newParquetTable(t, rows, rows/groups)
	l, c := table.caching(t, budget.New(1<<30), 1<<28, nil)
	for _, of := range []struct {
		use  dataset.CacheUse
		want int64
	}{{dataset.CacheFill, 0}, {dataset.CacheRead, groups * columns}, {dataset.CacheOff, 0}} {
		before := c.Stats()
		q := one(1, 400)
		q.Cache = of.use
		shards, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		require.Len(t, shards[0].Rows(), rows)
		found, after := shards[0].Report.Cached, c.Stats()
		if of.want == 0 {
			require.Nil(t, found, of.use)
			continue
		}
		require.Equal(t, of.want, found.Columns)
		require.Positive(t, found.Bytes)
		require.Equal(t, after.HitBytes-before.HitBytes, found.Bytes)
		require.Equal(t, after.Hits-before.Hits, found.Columns)
		require.InDelta(t, (after.Saved - before.Saved).Seconds(), found.Seconds, 1e-6)
	}
}
