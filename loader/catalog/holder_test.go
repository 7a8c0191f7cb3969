package catalog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
)

// holding is a catalog that counts the holds on its tables.
type holding struct {
	catalog.Catalog
	held map[string]int
}

func (h holding) Hold(_ context.Context, t *catalog.Table) (*release.Handle, error) {
	if t.Name == "ml.gone" {
		return nil, fault.New(fault.Unavailable, "table %s cannot be held", t.Name).In(t.Name, "")
	}
	h.held[t.Name]++
	return release.New(func() { h.held[t.Name]-- }), nil
}

// TestSetHolds checks that a set holds a table in the catalog of the table, and does nothing
// if that catalog is not a Holder.
func TestSetHolds(t *testing.T) {
	h := holding{inMemory(t, "ml.events"), map[string]int{}}
	set, err := catalog.NewSet(map[string]catalog.Catalog{"default": inMemory(t, "ml.events"), "lake": h}, "default")
	require.NoError(t, err)
	held, err := set.Hold(t.Context(), &catalog.Table{Name: "ml.events"})
	require.NoError(t, err)
	held.Release()
	require.Empty(t, h.held)
	held, err = set.Hold(t.Context(), &catalog.Table{Name: "lake.ml.events"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"ml.events": 1}, h.held)
	held.Release()
	require.Equal(t, map[string]int{"ml.events": 0}, h.held)
	_, err = set.Hold(t.Context(), &catalog.Table{Name: "lake.ml.gone"})
	require.EqualError(t, err, "catalog lake: table ml.gone cannot be held")
	require.Equal(t, "lake.ml.gone", fault.As(err).Table)
	nowhere, err := catalog.NewSet(map[string]catalog.Catalog{"lake": h}, "")
	require.NoError(t, err)
	_, err = nowhere.Hold(t.Context(), &catalog.Table{Name: "ml.events"})
	require.Equal(t, fault.NotFound.String(), fault.KindOf(err).String())
}
