package sqlcat

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Options say where a catalog lies.
type Options struct {
	Name    string // the catalog's stored name: what its writers call it
	URI     string // as SQLAlchemy has it: see schemes
	BaseDir string // folder of the config file, for relative paths
	// Calls run what asks a catalog's own file, so that it ends with the context of who
	// asks, whatever that file's disk does; nil: nothing is run so.
	Calls *store.Calls
	// Timeout is how long a question may take; 0 is for as long as its asker waits. Calls
	// hold questions of a file to it.
	Timeout time.Duration
	// Clock tells how long a question of a file has waited for others; nil: no time passes.
	Clock func() time.Time
}

// Catalog is an Iceberg SQL catalog.
type Catalog struct {
	name string
	database
	dialect
}

var _ locator.Lister = (*Catalog)(nil)

// question is put to a database; its context ends when nobody waits any more. What it
// finds it returns: it may be left behind, and go on when its asker has long gone.
type question func(ctx context.Context, db *sql.DB) (string, error)

// purpose is what a question is put for.
type purpose string

// The purposes.
const (
	reading purpose = "read"
	writing purpose = "write"
)

// database is where a catalog lies.
type database interface {
	// ask puts a question for a purpose.
	ask(ctx context.Context, to purpose, q question) (string, error)
	// unswapped says of a failure what became of what was to be changed.
	unswapped(err error) (locator.Outcome, error)
	// broken classifies a failure, and undefined says whether it is that of a table that
	// does not exist.
	broken(err error) error
	undefined(err error) bool
	// Close ends connections.
	Close()
}

// dialect is what else one kind of database has of its own.
type dialect struct {
	subject string             // the database, in errors
	mark    func(n int) string // the placeholder of a query's n-th argument, from 1 on
	restore string             // what helps where a catalog is gone that was there
}

const remedy = "write sqlite:////absolute/path, sqlite:///path relative to the config file, or postgresql://host/database with user and password"

// schemes are the beginnings of URIs, of SQLite and of PostgreSQL.
func schemes() (lite, postgres []string) {
	return []string{"sqlite"}, []string{"postgresql", "postgres", "postgresql+psycopg2", "postgresql+psycopg", "postgresql+asyncpg"}
}

// Open looks whether a catalog can be read. A URI that this version does not serve is
// Invalid, a file or a database that is not there NotFound (it is never made), a file that is
// none of SQLite's Corrupt, a server that does not answer Unavailable.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	c := &Catalog{name: o.Name}
	scheme, _, _ := strings.Cut(o.URI, ":")
	lite, postgres := schemes()
	var err error
	switch {
	case has(lite, scheme):
		c.database, c.dialect, err = openSQLite(ctx, o)
	case has(postgres, scheme):
		c.database, c.dialect, err = openPostgres(o)
	default:
		return nil, fault.InvalidField("uri", "a catalog on %q is not served by this version", scheme).WithRemedy(remedy)
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.ask(ctx, reading, c.isCatalog); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func has(list []string, text string) bool {
	for _, one := range list {
		if strings.EqualFold(one, text) {
			return true
		}
	}
	return false
}

// openSQLite looks for the file.
func openSQLite(ctx context.Context, o Options) (*sqliteFile, dialect, error) {
	path, err := sqlitePath(o)
	if err != nil {
		return nil, dialect{}, err
	}
	if o.Clock == nil {
		o.Clock = func() time.Time { return time.Time{} }
	}
	f := &sqliteFile{name: o.Name, path: path, calls: o.Calls, turn: make(chan struct{}, 1), limit: o.Timeout, clock: o.Clock}
	_, err = store.Call(ctx, o.Calls, "open", path, func(context.Context) (os.FileInfo, error) { return f.file() })
	return f, dialect{subject: path, mark: func(int) string { return "?" }, restore: restoreFile}, err
}

// sqlitePath finds the SQLite file that a URI names.
func sqlitePath(o Options) (string, error) {
	rest, ok := strings.CutPrefix(o.URI, "sqlite://")
	if !ok {
		return "", fault.InvalidField("uri", "%s names no file", fault.RedactURI(o.URI)).WithRemedy(remedy)
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
