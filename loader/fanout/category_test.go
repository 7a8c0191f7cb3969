package fanout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// TestJobsShareTextsAndCategories has jobs read a column as texts and as a category at once, in batches of
// 256 and 64 rows, in each order. One scan serves them all, and each batch has the form and the dictionary that
// its stream has alone.
//
// spec: wire-39, wire-48, wire-49
func TestJobsShareTextsAndCategories(t *testing.T) {
	t.Parallel()
	for first := range 4 {
		k := newKit(t, 4000, plenty, func(k *kit) { k.text = true })
		var want [][]string
		var queries []dataset.Query
		for i := range 4 {
			q := queryOf([]int{256, 64}[(i+first)/2%2], "item", "id")
			if (i+first)%2 == 0 {
				q.Columns[0].As = dataset.Category
			}
			queries = append(queries, q)
			want = append(want, k.alone(t, q))
		}
		one := k.open(t.Context(), t, queries[0])
		_, err := rest(one)
		require.NoError(t, err)
		one.Release()
		scans := k.scans()
		var all []loader.Stream
		for _, q := range queries {
			all = append(all, k.open(t.Context(), t, q))
		}
		got := make([][]string, 4)
		for running := true; running; {
			running = false
			for i, s := range all {
				if s.Next() {
					require.NoError(t, scenario.CheckCategories(s.RecordBatch()))
					require.Equal(t, queries[i].Columns[0].As != "", batch.IsCoded(s.RecordBatch().Column(0)))
					got[i] = append(got[i], given(s))
					running = true
				}
			}
		}
		for _, s := range all {
			require.NoError(t, s.Err())
			s.Release()
		}
		require.Equal(t, want, got)
		if queries[0].BatchRows == 256 { // others read more for the larger batches that come later
			require.Equal(t, scans, k.scans())
		}
		stats := k.sharer.Stats()
		require.Positive(t, stats.Views)
		require.Empty(t, stats.Alone)
		require.Zero(t, k.budget.Used())
	}
}
