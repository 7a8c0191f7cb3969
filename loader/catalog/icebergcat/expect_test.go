package icebergcat_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/dataset"
)

// Tables that are expected together are those that each question by itself finds. A second question for a table is about its
// state then.
//
// spec: catalog-33
func TestExpectedTables(t *testing.T) {
	w := newWriter(t)
	spec, _ := appends(t, w, 1)
	const other = "ml.other"
	w.create(t, other, idSchema())
	set, err := catalog.NewSet(map[string]catalog.Catalog{"default": w.caching(t, store.Local{}), "lake": w.open(t)}, "default")
	require.NoError(t, err)
	names := []string{events, other, "lake." + events, "lake." + other, "ml.none", "none"}
	ctx := set.Expect(t.Context(), names)
	want := make([]*catalog.Table, 4)
	for i := range want {
		want[i], err = set.Table(t.Context(), names[i], dataset.Ref{})
		require.NoError(t, err)
	}
	var all sync.WaitGroup
	got, failed := make([]*catalog.Table, len(names)), make([]error, len(names))
	for i, name := range names {
		all.Go(func() { got[i], failed[i] = set.Table(ctx, name, dataset.Ref{}) })
	}
	all.Wait()
	for i := range want {
		require.NoError(t, failed[i])
		require.Equal(t, want[i], got[i])
	}
	require.Equal(t, fault.NotFound, fault.KindOf(failed[4]), "%v", failed[4])
	require.Equal(t, fault.Invalid, fault.KindOf(failed[5]), "%v", failed[5])

	w.add(t, events, "", dataFile(t, spec, location("later"), nil, nil))
	later, err := set.Table(ctx, events, dataset.Ref{})
	require.NoError(t, err)
	require.NotEqual(t, got[0].Pin, later.Pin)
}

// The first question for one of several expected tables answers those for the others.
func TestExpectedTablesAreLookedUpOnce(t *testing.T) {
	w := newWriter(t)
	appends(t, w, 1)
	const other = "ml.other"
	w.create(t, other, idSchema())
	c := w.open(t)
	ctx := c.Expect(t.Context(), []string{events, other})
	_, err := c.Table(ctx, events, dataset.Ref{})
	require.NoError(t, err)
	w.alter(t, other, field(1, "id", idSchema().Field(0).Type), field(9, "more", idSchema().Field(0).Type))
	before, err := c.Table(ctx, other, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, before.Names(), "its state when the first was asked for")
	after, err := c.Table(ctx, other, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, []string{"id", "more"}, after.Names())
}

// silent locates tables one by one, and does not answer a question for several.
type silent struct {
	locator.Swapper
	asked int
}

func (s *silent) Locate(ctx context.Context, t locator.Table) (locator.Located, error) {
	s.asked++
	return s.Swapper.Locate(ctx, t)
}

func (*silent) LocateAll(context.Context, []locator.Table) (map[string]locator.Located, error) {
	return nil, fault.New(fault.Unavailable, "the catalog did not answer")
}

// A catalog that did not answer the question for all tables is not waited for once more with the question for one.
//
// spec: catalog-33
func TestCatalogsThatDoNotAnswerAreAskedOnce(t *testing.T) {
	w := newWriter(t)
	appends(t, w, 1)
	const other = "ml.other"
	w.create(t, other, idSchema())
	of := &silent{}
	c := openOver(t, w.options(), func(s locator.Swapper) locator.Swapper {
		of.Swapper = s
		return of
	})
	ctx := c.Expect(t.Context(), []string{events, other})
	for _, name := range []string{events, other} {
		_, err := c.Table(ctx, name, dataset.Ref{})
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	}
	require.Zero(t, of.asked)
	_, err := c.Table(ctx, events, dataset.Ref{})
	require.NoError(t, err, "a second question is about its later state")
	require.Equal(t, 1, of.asked)
}
