package icebergcat

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
)

// busyTimeout is how long a read waits for a writer that holds the catalog's
// file, in milliseconds.
const busyTimeout = "5000"

// maxConnections bounds the connections to one catalog's file. A read holds
// one for well under a millisecond.
const maxConnections = 4

// closeTimeout is how long Close waits for the catalog's disk.
const closeTimeout = time.Second

// Options say where a catalog lies.
type Options struct {
	Name      string      // the catalog's stored name: what its writers call it
	Type      string      // "sql", the one type of this version
	URI       string      // sqlite:////absolute/path or sqlite:///path from BaseDir
	Warehouse string      // where its writers put new tables; reading needs none
	BaseDir   string      // folder of the config file, for relative paths
	Store     store.Store // reads metadata files
	// Calls run what asks the catalog's own file, so that it ends with the
	// context of who asks, whatever that file's disk does; nil: nothing is run so.
	Calls *store.Calls
}

// Catalog is an Iceberg SQL catalog on SQLite. It is safe for concurrent use.
type Catalog struct {
	name  string
	path  string // of the SQLite file
	db    *sql.DB
	store store.Store
	calls *store.Calls
}

var _ catalog.Catalog = (*Catalog)(nil)

// Open opens a catalog for reading; the caller closes it. A type or URI that
// this version does not serve is Invalid, a file that is not there NotFound
// (it is never made), one that is no SQLite file Corrupt.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	path, err := sqlitePath(o)
	if err != nil {
		return nil, err
	}
	return store.Call(ctx, o.Calls, "open", path, func(ctx context.Context) (*Catalog, error) { return open(ctx, o, path) })
}

// open opens the catalog in a SQLite file.
func open(ctx context.Context, o Options, path string) (_ *Catalog, err error) {
	switch stat, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "catalog %s: there is no file %s", o.Name, path).In("", path).
			WithRemedy("correct its uri; Penstock opens catalogs that others made and makes none")
	case err != nil:
		return nil, fault.New(fault.Unavailable, "catalog %s: %w", o.Name, err).In("", path)
	case !stat.Mode().IsRegular():
		return nil, fault.InvalidField("uri", "%s is not a file", path).In("", path).
			WithRemedy("name the catalog's SQLite file")
	}
	c := &Catalog{name: o.Name, path: path, store: o.Store, calls: o.Calls}
	if c.db, err = c.connect(ctx, false); err == nil {
		return c, nil
	}
	if code(err) == sqlite3.SQLITE_CANTOPEN && !hasJournal(path) {
		// A file in WAL mode on a read-only file system: SQLite cannot make
		// the shared memory that it would coordinate with writers through.
		if db, again := c.connect(ctx, true); again == nil {
			c.db = db
			return c, nil
		}
	}
	return nil, c.broken(err)
}

// Close ends the connections. Calls that still run fail. A disk that does not
// answer is not waited for, and connections that only read have nothing to say.
func (c *Catalog) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = c.db.Close()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
	return nil
}

// connect opens the SQLite file and sees whether it holds a catalog. Nothing
// is set that would be written into the file: journal_mode among them.
func (c *Catalog) connect(ctx context.Context, immutable bool) (*sql.DB, error) {
	query := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(" + busyTimeout + ")", "query_only(1)"}}
	if immutable {
		query.Set("immutable", "1")
	}
	dsn := url.URL{Scheme: "file", Path: c.path, RawQuery: query.Encode(), OmitHost: true}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(maxConnections)
	if immutable {
		db.SetMaxIdleConns(-1) // SQLite would keep what it read; who mounts it elsewhere may write
	}
	var n int
	err = db.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'iceberg_tables'`).Scan(&n)
	if err == nil && n == 0 {
		err = fault.InvalidField("uri", "%s holds no Iceberg catalog: it has no table iceberg_tables", c.path).In("", c.path).
			WithRemedy("name the file that PyIceberg, Spark or another writer keeps its SQL catalog in")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// hasJournal says whether a writer left changes beside a SQLite file that are
// not in it yet.
func hasJournal(path string) bool {
	for _, suffix := range []string{"-wal", "-journal"} {
		if stat, err := os.Stat(path + suffix); err == nil && stat.Size() > 0 {
			return true
		}
	}
	return false
}

// broken classifies a failure of the SQLite file.
func (c *Catalog) broken(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Op(err, "read catalog %s", c.name)
	}
	switch code(err) {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fault.New(fault.Corrupt, "catalog %s: %w", c.name, err).In("", c.path).
			WithRemedy("name the catalog's SQLite file in its uri, or restore it")
	default:
		return fault.New(fault.Unavailable, "catalog %s: %w", c.name, err).In("", c.path)
	}
}

// code is SQLite's primary result code of an error, or SQLITE_OK.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff
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
		return "", fault.InvalidField("uri", "%s names no file", o.URI).WithRemedy(remedy)
	case strings.ContainsRune(path, '?'):
		return "", fault.InvalidField("uri", "parameters of %s are not served by this version", o.URI).WithRemedy(remedy)
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
