package metadata_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// caching opens the writer's catalog, which caches tables.
func caching(t *testing.T, w *icebergtest.Writer, from store.Store) *icebergcat.Catalog {
	t.Helper()
	tables, err := cache.New[*catalog.Table](1 << 20)
	require.NoError(t, err)
	t.Cleanup(tables.Close)
	o := w.Options()
	o.Store, o.Tables, o.Budget = from, tables, budget.New(64<<20)
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.Zero(t, o.Budget.Used())
	})
	return c
}

// What is cached changes no answer: after commits, other schemas and refs, and when a table or a snapshot is gone.
//
// spec: catalog-1
func TestCachedTablesConform(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := icebergtest.NewWriter(t)
		return w.Rig(caching(t, w, store.Local{}))
	})
}

// A table is read and parsed once for each metadata file with a name of its own. A commit is seen at once, and a snapshot that has
// expired is no longer there.
func TestTablesAreCached(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec, _ := icebergtest.Appends(t, w, 3)
	opened := &icebergtest.Opens{Store: store.Local{}}
	c := caching(t, w, opened)
	pinned := func(read int) *catalog.Table {
		t.Helper()
		opened.Files = nil
		table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		require.Len(t, opened.Files, read, "the metadata: %v", opened.Files)
		return table
	}
	first := pinned(1)
	require.Same(t, first, pinned(0))
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("3"), nil, nil))
	second := pinned(1)
	require.NotEqual(t, first.Pin, second.Pin)
	require.Same(t, second, pinned(0))
	at, err := c.At(t.Context(), icebergtest.Events, first.Pin)
	require.NoError(t, err)
	require.Equal(t, first.Pin, at.Pin)
	again, err := c.At(t.Context(), icebergtest.Events, first.Pin)
	require.NoError(t, err)
	require.Same(t, at, again)
	w.Expire(t, icebergtest.Events, first.Pin.Snapshot)
	for range 2 {
		_, err = c.At(t.Context(), icebergtest.Events, first.Pin)
		require.Equal(t, fault.Expired, fault.KindOf(err), "%v", err)
	}
}

// A metadata file whose name can be used again is read each time, and its content decides.
func TestMetadataFilesWithoutAUUIDAreReadEachTime(t *testing.T) {
	folder, snapshots := icebergtest.Versioned(t)
	tables, err := cache.New[*catalog.Table](1 << 20)
	require.NoError(t, err)
	t.Cleanup(tables.Close)
	c := icebergtest.OpenDirectory(t, icebergcat.Options{Warehouse: folder, Tables: tables})
	pinned := func() *catalog.Table {
		t.Helper()
		table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		return table
	}
	first := pinned()
	require.Equal(t, snapshots[2], first.Pin.Snapshot)
	require.Same(t, first, pinned())
	before, err := os.ReadFile(filepath.Join(folder, "ml/events/metadata/v2.metadata.json"))
	require.NoError(t, err)
	icebergtest.Put(t, folder, "ml/events/metadata/v3.metadata.json", string(before))
	require.Equal(t, snapshots[1], pinned().Pin.Snapshot)
}
