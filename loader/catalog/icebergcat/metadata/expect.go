package metadata

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// expectedTables are tables that are asked for next. Each is taken once: a second question for it is about its later state.
type expectedTables struct {
	tables []locator.Table
	ask    sync.Once
	mu     sync.Mutex
	found  map[string]locator.Located // by name; without those that were taken
	failed map[string]error           // of a catalog that did not answer, likewise
}

// expectedKey is the key of a context's expectedTables of a catalog.
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

// expected returns where an expected table is; false if it has to be looked up by itself: it is not expected, or its lookup failed.
// A catalog that did not answer is not asked again, which would take as long once more.
func (s *Source) expected(ctx context.Context, name string) (locator.Located, bool, error) {
	e, ok := ctx.Value(expectedKey{s}).(*expectedTables)
	if !ok || !slices.ContainsFunc(e.tables, func(t locator.Table) bool { return t.Name == name }) {
		return locator.Located{}, false, nil
	}
	e.ask.Do(func() {
		if together, ok := s.Locator.(locator.Together); ok {
			found, err := together.LocateAll(ctx, e.tables)
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
