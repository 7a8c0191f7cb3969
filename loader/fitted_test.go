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

// A cursor whose filter uses a fitted list resumes while the dataset has a list with the same values, under any name.
//
// spec: fitted-2, fitted-9
func TestCursorsHaveTheListsOfTheirFilter(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6, 4}}
	seed := loadertest.Seeds(t, 1, shape)[0]
	c, err := scenario.Random(seed, shape)
	require.NoError(t, err)
	defer c.Release()
	c.Dataset.Computed = []dataset.Computed{{Column: "bucket", Expr: "bucketize(item, bounds)"}}
	c.Dataset.Fitted = []dataset.Fitted{datasettest.Fitted("bounds", 1, 4, 9)}
	read := func(q dataset.Query) ([]string, dataset.Cursor, error) {
		shards, err := scenario.Read(context.Background(), c.Loader(), q)
		if err != nil {
			return nil, dataset.Cursor{}, err
		}
		return scenario.Texts(shards[0].Rows()), shards[0].Cursors[0], nil
	}
	for _, filter := range []string{"bucket > 0", "bucketize(item, bounds) > 0"} {
		c.Dataset.Fitted = []dataset.Fitted{datasettest.Fitted("bounds", 1, 4, 9)}
		c.Dataset.Computed[0].Expr = "bucketize(item, bounds)"
		q := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter(filter)}, Reading: dataset.Reading{Columns: []dataset.Column{{Column: "item"}, {Column: "bucket"}}, BatchRows: 4}}
		all, cursor, err := read(q)
		require.NoError(t, err)
		require.Greater(t, len(all), 4)
		require.Regexp(t, `^bucketize\(item, FITTED 'sha256:\w{64}'\) > 0$`, cursor.Filter.String())
		literal := q
		literal.Filter = datasettest.Filter("bucketize(item, [1, 4, 9]) > 0")
		want, _, err := read(literal)
		require.NoError(t, err)
		require.Equal(t, want, all)

		q.Cursor, q.Filter = dataset.Cursors{cursor}, dataset.Filter{}
		rest, _, err := read(q)
		require.NoError(t, err)
		require.Equal(t, all[4:], rest)
		c.Dataset.Fitted, c.Dataset.Computed[0].Expr = []dataset.Fitted{datasettest.Fitted("renamed", 1, 4, 9)}, "bucketize(item, renamed)"
		rest, _, err = read(q)
		require.NoError(t, err)
		require.Equal(t, all[4:], rest)
		c.Dataset.Fitted = []dataset.Fitted{datasettest.Fitted("renamed", 1, 4, 8)}
		_, _, err = read(q)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, "the dataset has no fitted list with the values FITTED 'sha256:")
	}
}

// Computed columns with fitted lists are the same in batches of all sizes and forms as those with literal lists.
//
// spec: fitted-1
func TestFittedListsInBatches(t *testing.T) {
	t.Parallel()
	shape := scenario.Shape{TrainingBuckets: 4, StagingBuckets: []int{6, 4}}
	for _, seed := range loadertest.Seeds(t, loadertest.Cases(share, 2, 20), shape) {
		c, err := scenario.Random(seed, shape)
		require.NoError(t, err)
		c.Dataset.Computed = []dataset.Computed{{Column: "a", Expr: "bucketize(item, [1, 4, 9])"}, {Column: "b", Expr: "lookup(coalesce(s0_u, 0), [0, 3, 2, 7], NULL)"}}
		for _, q := range loadertest.Orders() {
			q.Seed, q.BatchRows = 3, 7
			want, err := loadertest.ReadAll(t, c, q)
			require.NoError(t, err)
			written := c.Dataset.Computed
			c.Dataset.Fitted = []dataset.Fitted{datasettest.Fitted("bounds", 1, 4, 9), datasettest.Fitted("words", 0, 3, 2, 7)}
			c.Dataset.Computed = []dataset.Computed{{Column: "a", Expr: "bucketize(item, bounds)"}, {Column: "b", Expr: "lookup(coalesce(s0_u, 0), words, NULL)"}}
			for i, wire := range []dataset.Wire{dataset.WirePlain, dataset.WireIndexed, dataset.WireAuto} {
				again := q
				again.Wire, again.BatchRows = wire, 1+5*i
				got, err := loadertest.ReadAll(t, c, again)
				require.NoError(t, err)
				require.Equal(t, scenario.Texts(want), scenario.Texts(got), "seed %d, %s", seed, wire)
			}
			c.Dataset.Fitted, c.Dataset.Computed = nil, written
		}
		c.Release()
	}
}
