package tablestore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// tableID identifies a table of a catalog. If a table is dropped and another one is created under
// its name, the new table has another uuid and other grants.
type tableID struct{ name, uuid string }

// maxTables is the maximum number of tables whose grants are remembered. When it is reached, all
// grants are dropped, and are requested again when they are needed.
const maxTables = 1000

// tableFiles opens the files of one table with the credentials that its catalog granted. Streams
// that opened files of the table keep using it, even after it is dropped from Files, because it
// renews their credentials.
type tableFiles struct {
	files *Files
	name  string

	asking chan struct{} // a lock, so that one lease at a time renews credentials

	mu     sync.Mutex
	asked  bool           // whether the grants are known
	grants []*grantAccess // longest prefix first
}

// grantAccess opens the files of one grant.
type grantAccess struct {
	locator.Grant
	table  *tableFiles
	access *access
}

// Table returns the Opener of a table that was just located, with its grants.
func (f *Files) Table(name, uuid string, grants []locator.Grant) Opener {
	if f.options.Grants == nil {
		return f.shared
	}
	t := f.of(tableID{name, uuid})
	t.replace(grants)
	return t
}

// OpenIn opens a file of a table. It asks for the table's grants if none are known.
func (f *Files) OpenIn(ctx context.Context, name, uuid, location string, size int64) (store.Object, error) {
	if f.options.Grants == nil || isLocal(location) {
		return f.shared.Open(ctx, location, size)
	}
	t := f.of(tableID{name, uuid})
	if !t.known() {
		if err := t.ask(ctx); err != nil {
			return nil, err
		}
	}
	return t.Open(ctx, location, size)
}

// StoreIn returns the store with which OpenIn opens a location of a table.
func (f *Files) StoreIn(ctx context.Context, name, uuid, location string) (store.Store, error) {
	if f.options.Grants == nil || isLocal(location) {
		return f.shared.storeOf(ctx, location)
	}
	t := f.of(tableID{name, uuid})
	if !t.known() {
		if err := t.ask(ctx); err != nil {
			return nil, err
		}
	}
	return t.accessOf(location).storeOf(ctx, location)
}

// of returns the tableFiles of a table. Its grants may not be known yet.
func (f *Files) of(id tableID) *tableFiles {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tables[id]; t != nil {
		return t
	}
	if f.tables == nil || len(f.tables) >= maxTables {
		f.tables = map[tableID]*tableFiles{}
	}
	t := &tableFiles{files: f, name: id.name, asking: make(chan struct{}, 1)}
	f.tables[id] = t
	return t
}

// known reports whether the table's grants are known.
func (t *tableFiles) known() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// Open opens a file with the grant that has the longest prefix of its location, or
// with the catalog's own properties if no grant matches.
func (t *tableFiles) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	return t.accessOf(location).Open(ctx, location, size)
}

// accessOf returns the access with which a location is opened.
func (t *tableFiles) accessOf(location string) *access {
	kinds := t.files.options.Kinds
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.grants {
		if strings.HasPrefix(kinds.Canonical(location), kinds.Canonical(g.Prefix)) {
			return g.access
		}
	}
	return t.files.shared
}

// replace replaces the table's grants with newer grants. If a new grant differs from an old one
// only in the values of credentials, it keeps the open stores of the old grant.
func (t *tableFiles) replace(grants []locator.Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.grants
	t.grants, t.asked = nil, true
	for _, g := range grants {
		next := &grantAccess{Grant: g, table: t}
		i := slices.IndexFunc(old, func(o *grantAccess) bool { return t.files.alike(o.Grant, g) })
		if i >= 0 {
			next.access = old[i].access
		} else {
			next.access = &access{options: t.files.shared.options, grant: next}
		}
		t.grants = append(t.grants, next)
	}
	length := func(g *grantAccess) int { return len(t.files.options.Kinds.Canonical(g.Prefix)) }
	slices.SortStableFunc(t.grants, func(x, y *grantAccess) int { return cmp.Compare(length(y), length(x)) })
}

// alike reports whether two grants are equal, except perhaps for the values of credentials.
func (f *Files) alike(a, b locator.Grant) bool {
	for _, kind := range f.options.Kinds {
		if kind.HasCredential(a.Properties) != kind.HasCredential(b.Properties) {
			return false
		}
	}
	return a.Prefix == b.Prefix && maps.Equal(f.steady(a.Properties), f.steady(b.Properties))
}

// steady returns the properties without the credentials and the times at which they expire.
func (f *Files) steady(properties map[string]string) map[string]string {
	out := maps.Clone(properties)
	maps.DeleteFunc(out, func(name, _ string) bool { return f.options.Kinds.OfCredential(name) })
	return out
}

// ask asks the catalog for the table's grants.
func (t *tableFiles) ask(ctx context.Context) error {
	grants, err := t.files.options.Grants(ctx, t.name)
	if err == nil {
		t.replace(grants)
	}
	return err
}

// find returns the grant with the given prefix that has a credential for the kind of storage.
func (t *tableFiles) find(kind *store.Kind, prefix string) (locator.Grant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.grants, func(g *grantAccess) bool { return g.Prefix == prefix && kind.HasCredential(g.Properties) })
	if i < 0 {
		return locator.Grant{}, false
	}
	return t.grants[i].Grant, true
}
