package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/penstock/penstock/cmd/penstock/inputs"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
)

// catalogOf returns the catalog of a table, and the table's name in the catalog.
func (t *Tables) catalogOf(table string) (*icebergcat.Catalog, string, error) {
	of, name, err := t.Catalogs.Route(table)
	if err != nil {
		return nil, "", err
	}
	c, ok := t.byName[of]
	if !ok {
		return nil, "", fault.New(fault.Internal, "catalog %s was not opened", of)
	}
	return c, name, nil
}

// writes returns the catalog of a table for writing, and the table's name in the catalog.
func (t *Tables) writes(table string) (writable, string, error) {
	c, name, err := t.catalogOf(table)
	return writable{c}, name, err
}

// InputStorage returns a function that opens the storage of files whose rows are staged to a table.
// The function uses the properties of the table's catalog.
func (t *Tables) InputStorage(table string) func(context.Context, string) (store.Store, error) {
	return func(ctx context.Context, location string) (store.Store, error) {
		c, _, err := t.catalogOf(table)
		if err != nil {
			return nil, err
		}
		return c.Storage(ctx, location)
	}
}

// ColumnTypes returns a table's columns with their types. A column of UUIDs has Arrow's extension
// type for UUIDs, and a column that a promotion made has the mark inputs.Promoted. ColumnTypes returns nil if the table does not exist.
func (t *Tables) ColumnTypes(ctx context.Context, table string) ([]arrow.Field, error) {
	c, name, err := t.catalogOf(table)
	if err != nil {
		return nil, err
	}
	state, err := c.State(ctx, name, "")
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil //nolint:nilnil // if the table does not exist, no column has a known type
	}
	if err != nil {
		return nil, err
	}
	out := make([]arrow.Field, len(state.Table.Fields))
	for i, f := range state.Table.Fields {
		if out[i] = f.Arrow(); f.Declared != nil && !arrow.IsNested(f.Type.ID()) {
			out[i].Type = extensions.NewUUIDType()
		}
		if _, promoted := state.Table.Origins[f.ID]; promoted {
			out[i].Metadata = arrow.MetadataFrom(map[string]string{inputs.Promoted: ""})
		}
	}
	return out, nil
}

// TableNames implements flight.TableHistory. If within is the name of a catalog, TableNames lists
// the tables of this catalog. within may also be the name of a namespace in the default catalog, so
// it lists the tables of this namespace, too. A name may be that of a table and that of a namespace
// at the same time; then TableNames lists the table and those of the namespace.
func (t *Tables) TableNames(ctx context.Context, within string) ([]string, error) {
	var out []string
	for _, of := range slices.Sorted(maps.Keys(t.byName)) {
		if _, ok := t.byName[within]; ok && within != of && of != t.fallback() {
			continue
		}
		names, err := t.byName[of].List(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			named, ok := t.shown(of, name)
			if ok && (within == "" || within == of || lies(named, within) || lies(of+"."+name, within)) {
				out = append(out, named)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// lies reports whether a table has the name within, or lies in the namespace of that name.
func lies(table, within string) bool {
	return table == within || strings.HasPrefix(table, within+".")
}

// fallback returns the name of the default catalog, or "" if there is no default catalog. A table
// whose name does not begin with the name of a catalog is in the default catalog.
func (t *Tables) fallback() string {
	of, _, err := t.Catalogs.Route("a.b")
	if err != nil {
		return ""
	}
	return of
}

// shown returns the name that queries use for a table of a catalog, or false if queries cannot name
// the table.
func (t *Tables) shown(of, name string) (string, bool) {
	for _, named := range []string{name, of + "." + name} {
		if found, inner, err := t.Catalogs.Route(named); err == nil && found == of && inner == name {
			return named, true
		}
	}
	return "", false
}

// History implements flight.TableHistory.
func (t *Tables) History(ctx context.Context, table string, held *budget.Reservation) (*history.Table, error) {
	c, name, err := t.catalogOf(table)
	if err != nil {
		return nil, err
	}
	found, err := c.History(ctx, name, held)
	if err != nil {
		return nil, fault.Op(err, "read table %s", table)
	}
	found.Name = table
	return found, nil
}
