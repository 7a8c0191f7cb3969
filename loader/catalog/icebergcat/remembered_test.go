package icebergcat_test

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
	"github.com/penstock/penstock/loader/dataset"
)

// caching opens the writer's catalog, which caches tables.
func (w *writer) caching(t *testing.T, from store.Store) *icebergcat.Catalog {
	t.Helper()
	tables, err := cache.New[*catalog.Table](1 << 20)
	require.NoError(t, err)
	t.Cleanup(tables.Close)
	o := w.options()
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
		w := newWriter(t)
		return w.rig(w.caching(t, store.Local{}))
	})
}

// A table is read and parsed once for each metadata file with a name of its own. A commit is seen at once, and a snapshot that has
// expired is no longer there.
func TestTablesAreCached(t *testing.T) {
	w := newWriter(t)
	spec, _ := appends(t, w, 3)
	opened := &opens{Store: store.Local{}}
	c := w.caching(t, opened)
	pinned := func(read int) *catalog.Table {
		t.Helper()
		opened.files = nil
		table, err := c.Table(t.Context(), events, dataset.Ref{})
		require.NoError(t, err)
		require.Len(t, opened.files, read, "the metadata: %v", opened.files)
		return table
	}
	first := pinned(1)
	require.Same(t, first, pinned(0))
	w.add(t, events, "", dataFile(t, spec, location("3"), nil, nil))
	second := pinned(1)
	require.NotEqual(t, first.Pin, second.Pin)
	require.Same(t, second, pinned(0))
	at, err := c.At(t.Context(), events, first.Pin)
	require.NoError(t, err)
	require.Equal(t, first.Pin, at.Pin)
	again, err := c.At(t.Context(), events, first.Pin)
	require.NoError(t, err)
	require.Same(t, at, again)
	w.expire(t, events, first.Pin.Snapshot)
	for range 2 {
		_, err = c.At(t.Context(), events, first.Pin)
		require.Equal(t, fault.Expired, fault.KindOf(err), "%v", err)
	}
}

// A metadata file whose name can be used again is read each time, and its content decides.
func TestMetadataFilesWithoutAUUIDAreReadEachTime(t *testing.T) {
	folder, snapshots := versioned(t)
	tables, err := cache.New[*catalog.Table](1 << 20)
	require.NoError(t, err)
	t.Cleanup(tables.Close)
	c := openDirectory(t, icebergcat.Options{Warehouse: folder, Tables: tables})
	pinned := func() *catalog.Table {
		t.Helper()
		table, err := c.Table(t.Context(), events, dataset.Ref{})
		require.NoError(t, err)
		return table
	}
	first := pinned()
	require.Equal(t, snapshots[2], first.Pin.Snapshot)
	require.Same(t, first, pinned())
	before, err := os.ReadFile(filepath.Join(folder, "ml/events/metadata/v2.metadata.json"))
	require.NoError(t, err)
	put(t, folder, "ml/events/metadata/v3.metadata.json", string(before))
	require.Equal(t, snapshots[1], pinned().Pin.Snapshot)
}
