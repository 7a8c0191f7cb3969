package fanout_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/fanout"
)

// TestExplainShowsWhoSharesWhat has two streams in a group, one that left it at its limit, one that
// was parked, and one that has not begun.
func TestExplainShowsWhoSharesWhat(t *testing.T) {
	t.Parallel()
	k := newKit(t, 400, plenty, same)
	p, err := k.loader.Plan(t.Context(), query(unchanged))
	require.NoError(t, err)
	require.Empty(t, (*fanout.Sharer)(nil).Explain(p.TablesID))
	require.Empty(t, k.sharer.Explain(p.TablesID))

	one, two := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	limited := k.open(t.Context(), t, query(func(q *dataset.Query) { q.Limit = 3 }))
	parked, idle := k.open(t.Context(), t, query(unchanged)), k.open(t.Context(), t, query(unchanged))
	for range 3 {
		next(t, one)
		next(t, two)
	}
	next(t, limited)
	next(t, parked)
	require.True(t, parked.Park(false))
	text := regexp.MustCompile(`[0-9]+ KiB`).ReplaceAllString(k.sharer.Explain(p.TablesID), "N KiB")
	require.Equal(t, `
sharing
  shard 0: 2 streams at step 3, with one reader of 3 columns in batches of 8; the last 3 steps, N KiB, are kept
  shard 0: 1 stream in no group
  shard 0: 1 stream in no group (limit)
  shard 0: 1 stream in no group (parked)
`, text)
	require.Empty(t, k.sharer.Explain("another plan"))

	two.Release()
	next(t, parked) // which finds the group again
	require.Contains(t, k.sharer.Explain(p.TablesID), "shard 0: 2 streams at step 3, with one reader")
	require.NotContains(t, k.sharer.Explain(p.TablesID), "parked")
	one.Release()
	parked.Release()
	limited.Release()
	idle.Release()
	require.Empty(t, k.sharer.Explain(p.TablesID))
}
