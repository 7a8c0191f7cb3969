package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/history"
)

// TableHistory reads the metadata of the tables of an engine. It implements flight.TableHistory.
type TableHistory struct{ engine *Engine }

// TableHistory returns the TableHistory of the engine.
func (e *Engine) TableHistory() TableHistory { return TableHistory{engine: e} }

// TableNames implements flight.TableHistory. If within is the name of a catalog, it lists only this
// catalog and the default catalog, where within may be a namespace.
func (h TableHistory) TableNames(ctx context.Context, within string) ([]string, error) {
	var out []string
	for _, of := range slices.Sorted(maps.Keys(h.engine.byName)) {
		if _, ok := h.engine.byName[within]; ok && within != of && of != h.engine.fallback() {
			continue
		}
		names, err := h.engine.byName[of].List(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			named, ok := h.engine.shown(of, name)
			if ok && (within == "" || within == of || strings.HasPrefix(named, within+".") || strings.HasPrefix(of+"."+name, within+".")) {
				out = append(out, named)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// fallback returns the default catalog, which has the tables whose names include no catalog, or ""
// if there is none.
func (e *Engine) fallback() string {
	of, _, err := e.Catalogs.Route("a.b")
	if err != nil {
		return ""
	}
	return of
}

// shown returns the name that queries use for a table of a catalog, or false if queries cannot name
// the table.
func (e *Engine) shown(of, name string) (string, bool) {
	for _, named := range []string{name, of + "." + name} {
		if found, inner, err := e.Catalogs.Route(named); err == nil && found == of && inner == name {
			return named, true
		}
	}
	return "", false
}

// History implements flight.TableHistory.
func (h TableHistory) History(ctx context.Context, table string, held *budget.Reservation) (*history.Table, error) {
	c, name, err := h.engine.catalogOf(table)
	if err != nil {
		return nil, err
	}
	t, err := c.History(ctx, name, held)
	if err != nil {
		return nil, fault.Op(err, "read table %s", table)
	}
	t.Name = table
	return t, nil
}
