package dataset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// The digest of a dataset, which tickets have, is that of the values of its lists, and not of their files.
//
// spec: fitted-8
func TestDigestsOfDatasetsWithFittedLists(t *testing.T) {
	t.Parallel()
	of := func(lists ...dataset.Fitted) dataset.Dataset {
		return dataset.Dataset{Name: "d", Training: dataset.Training{Table: "ml.t"}, Fitted: lists, Computed: []dataset.Computed{{Column: "b", Expr: "bucketize(x, bounds)"}}}
	}
	list := datasettest.Fitted("bounds", 1, 5)
	d := of(list)
	moved := list
	moved.File, moved.Digest, moved.Column = "other.json", "sha256:"+"1", "price"
	require.Equal(t, d.Digest(), of(moved).Digest())
	require.NotEqual(t, d.Digest(), of(datasettest.Fitted("bounds", 1, 6)).Digest())
	require.NotEqual(t, d.Digest(), of(datasettest.Fitted("bound", 1, 5)).Digest())
	require.NotEqual(t, d.Digest(), of(list, datasettest.Fitted("more", 1)).Digest())
	require.NotEqual(t, d.Digest(), of().Digest())
	all := func(int) bool { return true }
	require.Equal(t, d.RowsDigest(all), of().RowsDigest(all))
	require.Contains(t, string(d.Canonical()), `"fitted":{"bounds":{"file":"bounds.json","digest":"sha256:0`)
	require.Equal(t, "bounds.json", d.Fitted[0].File)
}
