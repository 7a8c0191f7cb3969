package sqlcat

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Options configure a Catalog.
type Options struct {
	Name    string // of the catalog in the database, as its writers call it
	URI     string // in SQLAlchemy's form: see schemes
	BaseDir string // the folder that relative paths start from
	// Calls runs calls that access a SQLite file, so that they end with their context
	// even if the disk hangs; nil runs them directly.
	Calls *store.Calls
	// Timeout is the maximum duration of a call; 0 is unlimited. For SQLite, Calls enforces it.
	Timeout time.Duration
	// Clock measures how long a call to a SQLite file has waited for others; nil counts no
	// time.
	Clock func() time.Time
	// Created, if it is not nil, allows Insert to create the SQLite file if the file does not exist
	// when the catalog is opened. Created is called after the file was created. If it is nil, Open
	// returns NotFound for such a file.
	Created func(file string)
	// Unreachable is called with the error if a server does not answer Open, which then returns a catalog nevertheless: calls return
	// Unavailable until the server answers. If it is nil, Open returns the error.
	Unreachable func(error)
}

// Catalog is an Iceberg SQL catalog.
type Catalog struct {
	name string
	database
	dialect
}

var _ locator.Lister = (*Catalog)(nil)

// question is a function that queries a database. Its context ends when its caller stops waiting.
// The function may continue to run after that, so it must return its result and modify nothing
// else.
type question func(ctx context.Context, db *sql.DB) (string, error)

// purpose says whether a question reads or writes.
type purpose string

// The purposes. The question of a new table creates the catalog's file if Options.Created allows it.
const (
	reading  purpose = "read"
	writing  purpose = "write"
	newTable purpose = "create a table in"
)

// database is the database of a catalog.
type database interface {
	// ask runs a question, and returns its result.
	ask(ctx context.Context, to purpose, q question) (string, error)
	// outcome returns the outcome of a swap that failed.
	outcome(err error) (locator.Outcome, error)
	// broken classifies a failure; undefined reports whether a table does not exist.
	broken(err error) error
	undefined(err error) bool
	// Close closes connections.
	Close()
}

// dialect has the differences between the databases that are not methods of database.
type dialect struct {
	subject string             // the database, in errors
	mark    func(n int) string // the placeholder of the nth argument of a query, from 1
	restore string             // the remedy for a catalog that no longer exists
}

const remedy = "write sqlite:////absolute/path, sqlite:///path relative to the config file, or postgresql://host/database with user and password"

// schemes returns the URI schemes of SQLite and those of PostgreSQL.
func schemes() (lite, postgres []string) {
	return []string{"sqlite"}, []string{"postgresql", "postgres", "postgresql+psycopg2", "postgresql+psycopg", "postgresql+asyncpg"}
}

// Open opens a catalog and checks that it can be read. It returns Invalid for a URI that is not
// supported, NotFound for a file or database that does not exist, Corrupt for a file that is not a
// SQLite file, and Unavailable for a server that does not answer. With Options.Created, a SQLite file
// that does not exist is no error if its folder exists and has no file with a similar name: until
// the first Insert, calls then return NotFound.
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
		return nil, fault.InvalidField("uri", "a catalog on %q is not supported by this version", scheme).WithRemedy(remedy)
	}
	if err != nil {
		return nil, err
	}
	if file, lite := c.database.(*sqliteFile); lite && file.absent.Load() {
		return c, nil
	}
	if _, err := c.ask(ctx, reading, c.isCatalog); err != nil {
		if o.Unreachable == nil || fault.KindOf(err) != fault.Unavailable {
			c.Close()
			return nil, err
		}
		o.Unreachable(err)
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

// openSQLite checks that the file exists, or that it may be created.
func openSQLite(ctx context.Context, o Options) (*sqliteFile, dialect, error) {
	path, err := sqlitePath(o)
	if err != nil {
		return nil, dialect{}, err
	}
	if o.Clock == nil {
		o.Clock = func() time.Time { return time.Time{} }
	}
	f := &sqliteFile{name: o.Name, path: path, calls: o.Calls, turn: make(chan struct{}, 1), limit: o.Timeout, clock: o.Clock, created: o.Created}
	_, err = store.Call(ctx, o.Calls, "open", path, func(context.Context) (bool, error) { return f.find() })
	return f, dialect{subject: path, mark: func(int) string { return "?" }, restore: restoreFile}, err
}

// sqlitePath returns the path of the file that a URI names.
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
		return "", fault.InvalidField("uri", "parameters of %s are not supported by this version", fault.RedactURI(o.URI)).WithRemedy(remedy)
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
