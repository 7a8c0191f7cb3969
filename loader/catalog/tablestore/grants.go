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

// tableID names a table of a catalog. A table that is dropped and recreated under
// the same name has another uuid, and other grants.
type tableID struct{ name, uuid string }

// maxTables bounds the tables whose grants are remembered. When it is reached, all grants are
// dropped and requested again.
const maxTables = 1000

// tableFiles opens the files of one table with the credentials that its catalog granted. It stays
// in use as long as streams that opened files of the table, because their credentials are renewed
// through it.
type tableFiles struct {
	files *Files
	name  string

	asking chan struct{} // held while the catalog is asked for grants

	mu     sync.Mutex
	asked  bool           // whether the catalog was asked
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

// StoreIn returns the store of a location in a table, as OpenIn opens it.
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

// of returns the files of a table, which may have no grants yet.
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

// accessOf returns what opens a location.
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

// replace replaces the table's grants by newer ones. A grant that differs from an
// old one in its credentials alone keeps that one's stores.
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
			next.access = &access{options: t.files.shared.options, properties: t.files.options.Properties, grant: next}
		}
		t.grants = append(t.grants, next)
	}
	length := func(g *grantAccess) int { return len(t.files.options.Kinds.Canonical(g.Prefix)) }
	slices.SortStableFunc(t.grants, func(x, y *grantAccess) int { return cmp.Compare(length(y), length(x)) })
}

// alike reports whether two grants differ in the values of credentials at most.
func (f *Files) alike(a, b locator.Grant) bool {
	for _, kind := range f.options.Kinds {
		if kind.HasCredential(a.Properties) != kind.HasCredential(b.Properties) {
			return false
		}
	}
	return a.Prefix == b.Prefix && maps.Equal(f.steady(a.Properties), f.steady(b.Properties))
}

// steady returns properties without credentials and their expiry.
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

// find returns the grant of a prefix that has a credential for a kind of storage.
func (t *tableFiles) find(kind *store.Kind, prefix string) (locator.Grant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.grants, func(g *grantAccess) bool { return g.Prefix == prefix && kind.HasCredential(g.Properties) })
	if i < 0 {
		return locator.Grant{}, false
	}
	return t.grants[i].Grant, true
}
