// Package tablestore opens the files of a catalog's tables: local files, and files on each kind of
// remote storage that the process serves. It uses the catalog's properties, or the credentials that
// the catalog vends for a table.
//
// It knows the kinds of storage only from Options.Kinds.
package tablestore

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Options configure Files.
type Options struct {
	Local store.Store
	Kinds store.Kinds
	// Properties returns the catalog's properties; nil: it has none. It is called when a store is opened.
	Properties func(context.Context) (map[string]string, error)
	// Grants asks the catalog for new grants for a table. It is nil for a catalog that grants
	// nothing.
	Grants func(ctx context.Context, table string) ([]locator.Grant, error)
	// Clock returns the current time, to tell whether credentials have expired. If it is nil,
	// credentials are used until they are rejected.
	Clock func() time.Time
}

// Opener opens the files of a table.
type Opener interface {
	Open(ctx context.Context, location string, size int64) (store.Object, error)
}

// Files opens the files of one catalog. It is safe for concurrent use.
type Files struct {
	options Options
	shared  *access // for tables without grants

	mu     sync.Mutex
	tables map[tableID]*tableFiles
}

// New returns the Files of a catalog. It opens no store.
func New(o Options) *Files {
	return &Files{options: o, shared: &access{options: &o}}
}

// Open opens a file with the catalog's own properties.
func (f *Files) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	return f.shared.Open(ctx, location, size)
}

// Store returns the store of a location, opened with the catalog's own properties.
func (f *Files) Store(ctx context.Context, location string) (store.Store, error) {
	return f.shared.storeOf(ctx, location)
}

// access opens files with one set of properties and, if the catalog vends credentials, with those
// of one grant. It opens each store when the first file of the store is opened.
type access struct {
	options *Options
	grant   *grantAccess // nil: the catalog's own properties alone

	mu     sync.Mutex
	stores map[*store.Kind]store.Store
}

// Open opens a file.
func (a *access) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	files, err := a.storeOf(ctx, location)
	if err != nil {
		return nil, err
	}
	return files.Open(ctx, location, size)
}

func isLocal(location string) bool {
	scheme := store.Scheme(location)
	return scheme == "" || scheme == "file"
}

func (a *access) storeOf(ctx context.Context, location string) (store.Store, error) {
	if isLocal(location) {
		return a.options.Local, nil
	}
	kind := a.options.Kinds.Of(location)
	if kind == nil {
		return nil, a.options.Kinds.Refuse(location)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if opened := a.stores[kind]; opened != nil {
		return opened, nil
	}
	properties, credentials := map[string]string(nil), store.Credentials(nil)
	if a.options.Properties != nil {
		var err error
		if properties, err = a.options.Properties(ctx); err != nil {
			return nil, err
		}
	}
	if a.grant != nil {
		properties, credentials = a.grant.settings(kind, properties)
	}
	// The store outlives the call that opens it.
	opened, err := kind.Open(context.WithoutCancel(ctx), properties, credentials)
	if err != nil {
		return nil, err
	}
	if a.stores == nil {
		a.stores = map[*store.Kind]store.Store{}
	}
	a.stores[kind] = opened
	return opened, nil
}

// settings returns the properties and credentials for a kind of storage. The grant's properties
// replace the catalog's properties of the same names. If the grant has a credential, all of the
// catalog's properties that choose an identity are dropped.
func (g *grantAccess) settings(kind *store.Kind, properties map[string]string) (map[string]string, store.Credentials) {
	out := maps.Clone(properties)
	if out == nil {
		out = map[string]string{}
	}
	var credentials store.Credentials
	if kind.HasCredential(g.Properties) {
		for _, name := range kind.Identity {
			delete(out, name)
		}
		credentials = (&lease{table: g.table, kind: kind, prefix: g.Prefix}).next
	}
	maps.Copy(out, g.table.files.steady(g.Properties))
	return out, credentials
}
