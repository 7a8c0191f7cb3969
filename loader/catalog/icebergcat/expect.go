package icebergcat

import (
	"context"
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
}

// expectedKey is the key of a context's expectedTables of a catalog.
type expectedKey struct{ of *Catalog }

// Expect returns a context in which tables are looked up together. See catalog.Expecter.
func (c *Catalog) Expect(ctx context.Context, names []string) context.Context {
	if _, ok := c.tables.(locator.Together); !ok || len(names) < 2 {
		return ctx
	}
	e := &expectedTables{}
	for _, name := range names {
		if parts, err := catalog.Parts(name); err == nil {
			e.tables = append(e.tables, locator.Table{Name: name, Parts: parts})
		}
	}
	return context.WithValue(ctx, expectedKey{c}, e)
}

// expected returns where an expected table is; false if it has to be looked up by itself: it is not expected, or its lookup failed.
func (c *Catalog) expected(ctx context.Context, name string) (locator.Located, bool) {
	e, ok := ctx.Value(expectedKey{c}).(*expectedTables)
	if !ok {
		return locator.Located{}, false
	}
	e.ask.Do(func() {
		if together, ok := c.tables.(locator.Together); ok {
			e.found = together.LocateAll(ctx, e.tables)
		}
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.found[name]
	delete(e.found, name)
	return at, ok
}
