package loader_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/loadertest"
)

// withFormulas adds computed columns of the training table, of a staging table, and of several
// tables to a plain case with two staging tables.
func withFormulas(c *scenario.Made) {
	c.Dataset.Computed = []dataset.Computed{
		{Column: "next", Expr: "item + 1"},
		{Column: "twice", Expr: "coalesce(s0_u, 0) * 2"},
		{Column: "both", Expr: "twice + coalesce(s1_u, next)"},
		{Column: "ratio", Expr: "item / nullif(s0_u, 0)"},
		{Column: "text", Expr: "coalesce(s0_text, s1_text)"},
	}
}

// TestComputedColumnsDoNotDependOnTheForm reads computed columns in batches of all forms and sizes,
// in all orders, and resumes after each batch.
//
// spec: computed-8
func TestComputedColumnsDoNotDependOnTheForm(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6, 4}}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 2, 20), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		withFormulas(c)
		for _, q := range loadertest.Orders() {
			q.Seed, q.BatchRows = 3, 7
			want, err := loadertest.ReadAll(t, c, q)
			require.NoError(t, err)
			for i, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireIndexed, dataset.WireAuto} {
				again := q
				again.Wire, again.BatchRows = wire, 1+5*i
				got, err := loadertest.ReadAll(t, c, again)
				require.NoError(t, err)
				require.Equal(t, scenario.Texts(want), scenario.Texts(got), "seed %d, %s", seed, wire)
			}
			q.Dataset, q.Lanes, q.Shard, q.BatchRows = "d", 4, dataset.Shard{Index: dataset.AllShards, Of: 2}, 6
			resumeEverywhere(t, c, q)
		}
		c.Release()
	}
}

// TestCursorsHaveTheExpressionsOfTheirFilter resumes after the expressions of computed columns have
// changed.
//
// spec: computed-12
func TestCursorsHaveTheExpressionsOfTheirFilter(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6, 4}}
	seed := loadertest.Seeds(t, 1, shape)[0]
	c, err := scenario.Random(seed, shape)
	require.NoError(t, err)
	defer c.Release()
	withFormulas(c)
	columns := []dataset.Column{{Column: "item"}, {Column: "next"}}
	q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("next > 3")}, Reading: dataset.Reading{Columns: columns, BatchRows: 4}}
	read := func(q dataset.Query) ([]string, dataset.Cursor, error) {
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		if err != nil {
			return nil, dataset.Cursor{}, err
		}
		return scenario.Texts(shards[0].Rows()), shards[0].Cursors[0], nil
	}
	all, cursor, err := read(q)
	require.NoError(t, err)
	require.Equal(t, "item + 1 > 3", cursor.Filter.String())
	q.Cursor = dataset.Cursors{cursor}
	rest := func() {
		t.Helper()
		got, _, err := read(q)
		require.NoError(t, err)
		require.Equal(t, all[4:], got)
	}
	rest()
	c.Dataset.Computed[1].Expr = "coalesce(s0_u, 1) * 2"
	rest()
	c.Dataset.Computed[0].Expr = "item + 2"
	_, _, err = read(q)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "item + 2 > 3, but the cursor has item + 1 > 3")
	q.Filter, q.Columns = dataset.Filter{}, columns[:1]
	got, _, err := read(q)
	require.NoError(t, err)
	require.Len(t, got, len(all)-4)
}
