package metadata

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// expectedTables has the tables that will be looked up next, and the result of looking them up
// together. The result for each table is used once: a second lookup of the same table must see its
// later state.
type expectedTables struct {
	tables []locator.Table
	ask    sync.Once
	mu     sync.Mutex
	found  map[string]locator.Located // by name; without results that were used
	failed map[string]error           // by name, if the catalog did not answer; without errors that were returned
}

// expectedKey is the key under which a context has the expectedTables of a catalog.
type expectedKey struct{ of *Source }

// Expect returns a context in which tables are looked up together. See catalog.Expecter.
func (s *Source) Expect(ctx context.Context, names []string) context.Context {
	if _, ok := s.Locator.(locator.Together); !ok || len(names) < 2 {
		return ctx
	}
	e := &expectedTables{}
	for _, name := range names {
		if parts, err := catalog.Parts(name); err == nil {
			e.tables = append(e.tables, locator.Table{Name: name, Parts: parts})
		}
	}
	return context.WithValue(ctx, expectedKey{s}, e)
}

// expected returns the location of a table that Expect named. It returns false without an error if
// the table must be looked up by itself, because Expect did not name it, because its result was
// already used, or because LocateAll left it out. If the catalog did not answer LocateAll, expected
// returns this error, because a second request would take as long again.
func (s *Source) expected(ctx context.Context, name string) (locator.Located, bool, error) {
	e, ok := ctx.Value(expectedKey{s}).(*expectedTables)
	if !ok || !slices.ContainsFunc(e.tables, func(t locator.Table) bool { return t.Name == name }) {
		return locator.Located{}, false, nil
	}
	e.ask.Do(func() {
		if together, ok := s.Locator.(locator.Together); ok {
			found, err := lookup(s, func() (map[string]locator.Located, error) { return together.LocateAll(ctx, e.tables) })
			e.found, e.failed = found, map[string]error{}
			for _, t := range e.tables {
				e.failed[t.Name] = err
			}
		}
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.found[name]
	err := e.failed[name]
	delete(e.found, name)
	delete(e.failed, name)
	return at, ok, err
}
