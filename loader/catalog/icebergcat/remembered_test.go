package icebergcat_test

import (
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

// A table is parsed once for each metadata that the catalog has of it, which is read each time. A commit is seen
// at once, and a snapshot that has expired is no longer there.
func TestTablesAreCached(t *testing.T) {
	w := newWriter(t)
	spec, _ := appends(t, w, 3)
	opened := &opens{Store: store.Local{}}
	c := w.caching(t, opened)
	pinned := func() *catalog.Table {
		t.Helper()
		opened.files = nil
		table, err := c.Table(t.Context(), events, dataset.Ref{})
		require.NoError(t, err)
		require.Len(t, opened.files, 1, "the metadata: %v", opened.files)
		return table
	}
	first := pinned()
	require.Same(t, first, pinned())
	w.add(t, events, "", dataFile(t, spec, location("3"), nil, nil))
	second := pinned()
	require.NotEqual(t, first.Pin, second.Pin)
	require.Same(t, second, pinned())
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
