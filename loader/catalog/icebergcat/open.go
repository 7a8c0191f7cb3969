package icebergcat

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
)

// Options say where a catalog lies.
type Options struct {
	Name      string      // the catalog's stored name: what its writers call it
	Type      string      // "sql", the one type of this version
	URI       string      // sqlite:////absolute/path or sqlite:///path from BaseDir
	Warehouse string      // where its writers put new tables; reading needs none
	BaseDir   string      // folder of the config file, for relative paths
	Store     store.Store // reads local files
	// S3 makes the store of files on S3, of Properties; nil: S3 is not served.
	S3 S3
	// Properties are the catalog's own, under the names that PyIceberg has for them.
	Properties map[string]string
	// Calls run what asks the catalog's own file, so that it ends with the
	// context of who asks, whatever that file's disk does; nil: nothing is run so.
	Calls *store.Calls
	// MaxMetadata is the most bytes, as stored and unpacked, of a metadata file,
	// manifest list or manifest: a larger one is Exhausted. 0 is no limit.
	MaxMetadata int64
	// Manifests remembers manifests and manifest lists, as stored; nil reads them each
	// time.
	Manifests *cache.Cache[[]byte]
	// Budget is charged for metadata while it is read and parsed; nil is unlimited.
	Budget *budget.Budget
}

// Catalog is an Iceberg SQL catalog on SQLite. It holds nothing open. It is safe
// for concurrent use.
type Catalog struct {
	name    string
	path    string // of the SQLite file
	options Options
	access  *access       // to files of tables for which the catalog gives nothing of its own
	turn    chan struct{} // full while a connection is open: see ask
}

var (
	_ catalog.Catalog = (*Catalog)(nil)
	_ catalog.Opener  = (*Catalog)(nil)
)

// Open looks whether a catalog can be read. A type or URI that this version does
// not serve is Invalid, a file that is not there NotFound (it is never made), one
// that is no SQLite file Corrupt.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	path, err := sqlitePath(o)
	if err != nil {
		return nil, err
	}
	c := &Catalog{name: o.Name, path: path, options: o, turn: make(chan struct{}, 1)}
	c.access = &access{local: o.Store, make: o.S3, properties: o.Properties}
	if _, err := store.Call(ctx, o.Calls, "open", path, func(context.Context) (os.FileInfo, error) { return c.file() }); err != nil {
		return nil, err
	}
	_, err = ask(ctx, c, func(ctx context.Context, db *sql.DB) (struct{}, error) { return struct{}{}, c.isCatalog(ctx, db) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// sqlitePath checks options and finds the SQLite file that they name.
func sqlitePath(o Options) (string, error) {
	if o.Name == "" {
		return "", fault.InvalidField("name", "the catalog has no name")
	}
	if o.Type != "sql" {
		return "", fault.InvalidField("type", "catalog type %q is not served by this version", o.Type).
			WithRemedy("use type: sql")
	}
	if scheme := store.Scheme(o.Warehouse); scheme != "" && scheme != "file" {
		return "", fault.InvalidField("warehouse", "storage %s: is not served by this version", scheme).
			WithRemedy("use a warehouse of local files (file:///path)")
	}
	const remedy = "write sqlite:////absolute/path, or sqlite:///path relative to the config file"
	rest, ok := strings.CutPrefix(o.URI, "sqlite://")
	if !ok {
		scheme, _, _ := strings.Cut(o.URI, ":")
		return "", fault.InvalidField("uri", "a catalog on %q is not served by this version", scheme).WithRemedy(remedy)
	}
	path, ok := strings.CutPrefix(rest, "/")
	switch {
	case !ok || path == "" || path == ":memory:":
		return "", fault.InvalidField("uri", "%s names no file", fault.RedactURI(o.URI)).WithRemedy(remedy)
	case strings.ContainsRune(path, '?'):
		return "", fault.InvalidField("uri", "parameters of %s are not served by this version", fault.RedactURI(o.URI)).WithRemedy(remedy)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.BaseDir, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fault.New(fault.Unavailable, "catalog %s: %w", o.Name, err)
	}
	return path, nil
}
