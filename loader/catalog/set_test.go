package catalog_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
)

func inMemory(t *testing.T, tables ...string) *catalogtest.Memory {
	t.Helper()
	m := catalogtest.NewMemory()
	for _, name := range tables {
		require.NoError(t, m.AddTable(name, catalogtest.Fields(), nil))
		_, err := m.Append(name, catalog.File{Location: name, Rows: 1})
		require.NoError(t, err)
	}
	return m
}

// TestSetConforms checks that a set behaves like the catalog that a name leads to, with the
// catalog's name in front or without it.
func TestSetConforms(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		r := catalogtest.MemoryRig(t)
		set, err := catalog.NewSet(map[string]catalog.Catalog{"default": r.Catalog, "other": catalogtest.NewMemory()}, "default")
		require.NoError(t, err)
		r.Catalog = set
		return r
	})
}

func TestSetRoutes(t *testing.T) {
	set, err := catalog.NewSet(map[string]catalog.Catalog{
		"default": inMemory(t, "ml.events", "default.events", "a.b.events"),
		"lake":    inMemory(t, "ml.events", "raw.eu.clicks"),
	}, "default")
	require.NoError(t, err)
	for name, location := range map[string]string{
		"ml.events":          "ml.events",
		"default.events":     "default.events", // a namespace: a table needs one
		"default.ml.events":  "ml.events",
		"a.b.events":         "a.b.events",
		"lake.ml.events":     "ml.events",
		"lake.raw.eu.clicks": "raw.eu.clicks",
	} {
		table, err := set.Table(t.Context(), name, dataset.Ref{})
		require.NoError(t, err)
		require.Equal(t, name, table.Name)
		at, err := set.At(t.Context(), name, table.Pin)
		require.NoError(t, err)
		require.Equal(t, table, at)
		files, err := set.Files(t.Context(), at, []int{catalogtest.IDColumn}, nil)
		require.NoError(t, err)
		require.Len(t, files, 1)
		require.Equal(t, location, files[0].Location)
	}
}

func TestSetExplains(t *testing.T) {
	set, err := catalog.NewSet(map[string]catalog.Catalog{
		"default": inMemory(t, "ml.events"), "lake": inMemory(t, "ml.events"),
	}, "default")
	require.NoError(t, err)

	_, err = set.Table(t.Context(), "lake.ml.event", dataset.Ref{})
	e := fault.As(err)
	require.Equal(t, fault.NotFound, e.Kind)
	require.Equal(t, "lake.ml.event", e.Table)
	require.EqualError(t, err, `catalog lake: table ml.event does not exist (did you mean "ml.events"?)`)

	_, err = set.Table(t.Context(), "lkae.ml.events", dataset.Ref{})
	e = fault.As(err)
	require.Equal(t, fault.NotFound, e.Kind)
	require.Equal(t, "lake.ml.events", e.Faults[0].Nearest)
	require.EqualError(t, err,
		"table lkae.ml.events does not exist; no catalog is called lkae; did you mean catalog lake, as in lake.ml.events?")

	_, err = set.Table(t.Context(), "ml.orders", dataset.Ref{})
	require.EqualError(t, err, "table ml.orders does not exist")

	_, err = set.Table(t.Context(), "lake.ml.events", dataset.Ref{Name: "v1"})
	require.EqualError(t, err, `catalog lake: table ml.events has no branch or tag "v1"; name one of its refs: main`)
	require.Equal(t, "lake.ml.events", fault.As(err).Table)
}

func TestSetWithoutDefault(t *testing.T) {
	_, err := catalog.NewSet(map[string]catalog.Catalog{"lake": inMemory(t)}, "lkae")
	require.EqualError(t, err, `catalogs: the default catalog lkae does not exist (did you mean "lake"?)`)
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	set, err := catalog.NewSet(map[string]catalog.Catalog{"lake": inMemory(t, "ml.events"), "b": inMemory(t)}, "")
	require.NoError(t, err)
	_, err = set.Table(t.Context(), "lake.ml.events", dataset.Ref{})
	require.NoError(t, err)
	_, err = set.Table(t.Context(), "lkae.ml.events", dataset.Ref{})
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.EqualError(t, err,
		`table lkae.ml.events does not name a catalog, and there is no default catalog (did you mean "lake"?); put one of these and a dot in front of it: b, lake`)
}

// files is a catalog that opens files, and records the tables for which it did.
type files struct {
	*catalogtest.Memory
	store.Store
	asked *[]string
}

func (f files) Open(ctx context.Context, t *catalog.Table, location string, size int64) (store.Object, error) {
	*f.asked = append(*f.asked, t.Name)
	return f.Store.Open(ctx, location, size)
}

// TestSetOpens checks that the catalog of a table opens its files, under the name that the
// table has there.
func TestSetOpens(t *testing.T) {
	const location = "file:///a"
	var own, other []string
	open := func(content string, asked *[]string, tables ...string) catalog.Catalog {
		s := storetest.NewMemory()
		s.Put(location, []byte(content))
		return files{Memory: inMemory(t, tables...), Store: s, asked: asked}
	}
	set, err := catalog.NewSet(map[string]catalog.Catalog{
		"default": open("own", &own, "ml.events"), "lake": open("other", &other, "ml.events"), "closed": inMemory(t, "ml.events"),
	}, "default")
	require.NoError(t, err)
	for name, want := range map[string]string{"ml.events": "own", "lake.ml.events": "other"} {
		table, err := set.Table(t.Context(), name, dataset.Ref{})
		require.NoError(t, err)
		object, err := set.Open(t.Context(), table, location, int64(len(want)))
		require.NoError(t, err)
		content := make([]byte, len(want))
		require.NoError(t, object.ReadAt(t.Context(), memory.NewBufferBytes(content), 0))
		require.NoError(t, object.Close())
		require.Equal(t, want, string(content))
		require.Equal(t, name, table.Name)
	}
	require.Equal(t, []string{"ml.events"}, own)
	require.Equal(t, []string{"ml.events"}, other)

	table, err := set.Table(t.Context(), "closed.ml.events", dataset.Ref{})
	require.NoError(t, err)
	_, err = set.Open(t.Context(), table, location, store.SizeUnknown)
	require.ErrorContains(t, err, "the catalog of table closed.ml.events cannot open files")
}
