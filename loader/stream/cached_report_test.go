package stream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestReportsCountWhatCameFromTheCache reads a table of 10 row groups of three columns several times. The reports add up
// to what the cache counts.
//
// spec: cache-10
func TestReportsCountWhatCameFromTheCache(t *testing.T) {
	t.Parallel()
	const rows, groups, columns = 5000, 10, 3
	table := loadertest.NewParquetTable(t, rows, rows/groups)
	l, c := caching(t, table, budget.New(1<<30), 1<<28, nil)
	for _, of := range []struct {
		use  dataset.CacheUse
		want int64
	}{{dataset.CacheFill, 0}, {dataset.CacheRead, groups * columns}, {dataset.CacheOff, 0}} {
		before := c.Stats()
		q := loadertest.OneShard(1, 400)
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

// TestReportsOfSharingStreams: what streams that share their batches read from the cache is in the report of one of them, also
// what was read before the form of the batches was chosen.
//
// spec: cache-10
func TestReportsOfSharingStreams(t *testing.T) {
	t.Parallel()
	for _, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireAuto} {
		table := loadertest.NewParquetTable(t, 5000, 500)
		limit := budget.New(1 << 30)
		l, c := caching(t, table, limit, 1<<28, nil)
		q := loadertest.OneShard(1, 400)
		q.Wire, q.Cache = wire, dataset.CacheFill
		_, err := scenario.Read(t.Context(), l, q)
		require.NoError(t, err)
		before := c.Stats()
		p, err := l.Plan(t.Context(), q)
		require.NoError(t, err)
		sharer := fanout.New(fanout.Options{Budget: limit, Window: 1 << 28})
		var all []loader.Stream
		for range 2 {
			s, err := sharer.Over(l).Open(t.Context(), p, loader.StreamOptions{})
			require.NoError(t, err)
			all = append(all, s)
		}
		for all[0].Next() {
			require.True(t, all[1].Next())
		}
		require.False(t, all[1].Next())
		var columns, bytes int64
		for _, s := range all {
			require.NoError(t, s.Err())
			if of := s.Report().Cached; of != nil {
				columns, bytes = columns+of.Columns, bytes+of.Bytes
			}
			s.Release()
		}
		require.EqualValues(t, 30, c.Stats().Hits-before.Hits, wire)
		require.EqualValues(t, 30, columns, wire)
		require.Equal(t, c.Stats().HitBytes-before.HitBytes, bytes, wire)
	}
}
