package metadata_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/dataset"
)

// Tables that are expected together are those that each question by itself finds. A second question for a table is about its
// state then.
//
// spec: catalog-33
func TestExpectedTables(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec, _ := icebergtest.Appends(t, w, 1)
	const other = "ml.other"
	w.Create(t, other, icebergtest.IDSchema())
	set, err := catalog.NewSet(map[string]catalog.Catalog{"default": caching(t, w, store.Local{}), "lake": w.Open(t)}, "default")
	require.NoError(t, err)
	names := []string{icebergtest.Events, other, "lake." + icebergtest.Events, "lake." + other, "ml.none", "none"}
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

	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("later"), nil, nil))
	later, err := set.Table(ctx, icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.NotEqual(t, got[0].Pin, later.Pin)
}

// The first question for one of several expected tables answers those for the others.
func TestExpectedTablesAreLookedUpOnce(t *testing.T) {
	w := icebergtest.NewWriter(t)
	icebergtest.Appends(t, w, 1)
	const other = "ml.other"
	w.Create(t, other, icebergtest.IDSchema())
	c := w.Open(t)
	ctx := c.Expect(t.Context(), []string{icebergtest.Events, other})
	_, err := c.Table(ctx, icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	w.Alter(t, other, icebergtest.Field(1, "id", icebergtest.IDSchema().Field(0).Type), icebergtest.Field(9, "more", icebergtest.IDSchema().Field(0).Type))
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

// Each request to the catalog is observed once, whether it fails or not.
func TestRequestsToTheCatalogAreObserved(t *testing.T) {
	w := icebergtest.NewWriter(t)
	icebergtest.Appends(t, w, 1)
	o := w.Options()
	var seen []error
	now := time.Now()
	o.Clock = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	o.LookedUp = func(took time.Duration, err error) {
		require.GreaterOrEqual(t, took, time.Second)
		seen = append(seen, err)
	}
	c := icebergtest.OpenOver(t, o, func(s locator.Swapper) locator.Swapper { return &silent{Swapper: s} })
	ctx := c.Expect(t.Context(), []string{icebergtest.Events, "ml.other"})
	for range 2 {
		_, _ = c.Table(ctx, icebergtest.Events, dataset.Ref{}) // the first call fails
	}
	require.Len(t, seen, 2)
	require.Equal(t, fault.Unavailable, fault.KindOf(seen[0]))
	require.NoError(t, seen[1])
}

// A catalog that did not answer the question for all tables is not waited for once more with the question for one.
//
// spec: catalog-33
func TestCatalogsThatDoNotAnswerAreAskedOnce(t *testing.T) {
	w := icebergtest.NewWriter(t)
	icebergtest.Appends(t, w, 1)
	const other = "ml.other"
	w.Create(t, other, icebergtest.IDSchema())
	of := &silent{}
	c := icebergtest.OpenOver(t, w.Options(), func(s locator.Swapper) locator.Swapper {
		of.Swapper = s
		return of
	})
	ctx := c.Expect(t.Context(), []string{icebergtest.Events, other})
	for _, name := range []string{icebergtest.Events, other} {
		_, err := c.Table(ctx, name, dataset.Ref{})
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	}
	require.Zero(t, of.asked)
	_, err := c.Table(ctx, icebergtest.Events, dataset.Ref{})
	require.NoError(t, err, "a second question is about its later state")
	require.Equal(t, 1, of.asked)
}
