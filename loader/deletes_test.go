package loader_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// TestStreamsKeepDeletes checks that a stream keeps the deletes of the files of all its
// tables loaded from when it is opened until it is released, whether parked or not.
//
// spec: delete-7
func TestStreamsKeepDeletes(t *testing.T) {
	t.Parallel()
	c := loadertest.World(t)
	deletes := catalog.Deletes{Positions: []*catalog.DeleteFile{{Location: "d"}}}
	kept, ended := map[string]int{}, map[string]int{}
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{c.Dataset}, Catalog: c.World, Scan: c.Scan,
		Keep: func(table *catalog.Table, files []catalog.File) *release.Handle {
			kept[table.Name] += len(files)
			for _, f := range files {
				require.False(t, f.Deletes.None(), "files without deletes need nothing")
			}
			return release.New(func() { ended[table.Name] += len(files) })
		},
	})
	s := loadertest.Open(t, l, loadertest.OneShard(4, 8))
	require.Zero(t, kept[c.Dataset.Training.Table])
	s.Release()

	for _, table := range []string{c.Dataset.Training.Table, c.Dataset.Staging[0].Table} {
		c.SetAllDeletes(table, deletes)
	}
	s = loadertest.Open(t, l, loadertest.OneShard(4, 8))
	require.Positive(t, kept[c.Dataset.Training.Table])
	require.Positive(t, kept[c.Dataset.Staging[0].Table])
	require.True(t, s.Next())
	require.True(t, s.Park(false))
	require.True(t, s.Next())
	for _, n := range ended {
		require.Zero(t, n)
	}
	s.Release()
	require.Equal(t, kept, ended)
}
