package sqlcat

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// How long a question waits for a process that holds the catalog's file locked: well
// within what storage has to answer in, so that a lock is not taken for a disk that
// hangs. Questions that have waited for another one wait for the rest of it.
const (
	longestLock  = 5 * time.Second
	shortestLock = 50 * time.Millisecond
)

// lockTimeout is how long a question waits for a lock, of those with so much time for
// an answer (0: any), after it has waited for its turn.
func lockTimeout(limit, waited time.Duration) time.Duration {
	wait := longestLock
	if limit > 0 {
		wait = min(wait, limit/2) //nolint:mnd // the other half is for what it asks
	}
	return max(wait-waited, shortestLock)
}

// restoreFile is what helps where the file is gone, or is none of a catalog any more.
const restoreFile = "put the catalog's file back: the next query reads what is there then"

// sqliteFile is a catalog in a file of SQLite. It holds nothing open.
type sqliteFile struct {
	name  string
	path  string
	calls *store.Calls
	turn  chan struct{} // full while a connection is open
	limit time.Duration // for an answer; 0 is none
	clock func() time.Time
}

// ask opens the file, puts a question to it and closes it again. A connection that
// stayed open would go on reading the old file after another one was put in its place.
//
// One connection is open at a time. SQLite keeps the shared memory of a file in
// WAL mode beside it, under a name, and keeps track of who uses it by locks that a
// process does not have against itself: a connection to the new file would clear
// what one to the old file still has in use. A question takes well under a
// millisecond.
func (c *sqliteFile) ask(ctx context.Context, to purpose, q question) (string, error) {
	connect := c.connect
	if to == writing {
		connect = c.connectToWrite
	}
	return store.Call(ctx, c.calls, string(to), c.path, func(ctx context.Context) (string, error) { return c.answer(ctx, connect, q) })
}

// connectToWrite opens the SQLite file as it is found now, which must be there.
func (c *sqliteFile) connectToWrite(ctx context.Context, wait time.Duration) (*sql.DB, error) {
	if _, err := c.file(); err != nil {
		return nil, lost(err, restoreFile)
	}
	return c.open(ctx, url.Values{"mode": {"rw"}, "_pragma": {busyPragma(wait)}})
}

// unswapped says what became of a statement that failed. SQLite undoes what it could not
// do whole; what the disk or a caller who left did to it only the next look tells.
func (c *sqliteFile) unswapped(err error) (locator.Outcome, error) {
	said := c.broken(err)
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return locator.Unknown, said
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CONSTRAINT:
		return locator.Refused, fault.As(said).WithRemedy("let the server write the catalog's file %s and the folder that it is in, or leave pin_tags out", c.path)
	}
	return locator.Unknown, said
}

// answer is ask on the catalog's own terms. Who waits for another question, which
// hangs, ends with its storage too.
func (c *sqliteFile) answer(ctx context.Context, connect func(context.Context, time.Duration) (*sql.DB, error), q question) (found string, err error) {
	asked := c.clock()
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	defer func() {
		if err != nil && ctx.Err() != nil { // SQLite says that it was interrupted
			err = fault.Op(context.Cause(ctx), "read catalog %s", c.name)
		}
	}()
	db, err := connect(ctx, lockTimeout(c.limit, c.clock().Sub(asked)))
	if err != nil {
		return found, err
	}
	defer func() {
		if closing := db.Close(); err == nil && closing != nil {
			err = c.broken(closing)
		}
	}()
	return q(ctx, db)
}

// undefined says whether SQLite knows no table of a name that was selected from.
func (c *sqliteFile) undefined(err error) bool {
	return code(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

// Close has nothing to end.
func (c *sqliteFile) Close() {}

// connect opens the SQLite file as it is found now.
func (c *sqliteFile) connect(ctx context.Context, wait time.Duration) (*sql.DB, error) {
	before, err := c.file()
	if err != nil {
		return nil, lost(err, restoreFile)
	}
	db, err := c.open(ctx, readOnly(wait, false))
	if err == nil {
		return db, nil
	}
	if code(err) != sqlite3.SQLITE_CANTOPEN || hasJournal(c.path) {
		return nil, c.broken(err)
	}
	// A file in WAL mode on a read-only file system: SQLite cannot make the shared
	// memory that it would coordinate with writers through. Or the file was taken
	// away in between: another one, which a writer may have, is not read like that.
	if after, again := c.file(); again != nil || !os.SameFile(before, after) {
		return nil, c.broken(err)
	}
	if db, err = c.open(ctx, readOnly(wait, true)); err != nil {
		return nil, c.broken(err)
	}
	return db, nil
}

// busyPragma has a connection wait for others.
func busyPragma(wait time.Duration) string {
	return "busy_timeout(" + strconv.FormatInt(wait.Milliseconds(), 10) + ")"
}

// readOnly is how a file is opened to read.
func readOnly(wait time.Duration, immutable bool) url.Values {
	query := url.Values{"mode": {"ro"}, "_pragma": {busyPragma(wait), "query_only(1)"}}
	if immutable {
		query.Set("immutable", "1")
	}
	return query
}

// open makes one connection, and sees that the file is one of SQLite. Nothing is
// set that would be written into the file: journal_mode among them.
func (c *sqliteFile) open(ctx context.Context, query url.Values) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: c.path, RawQuery: query.Encode(), OmitHost: true}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	var n int
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&n); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// file looks for the SQLite file.
func (c *sqliteFile) file() (os.FileInfo, error) {
	switch stat, err := os.Stat(c.path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "catalog %s: there is no file %s", c.name, c.path).In("", c.path).
			WithRemedy("correct its uri%s; Penstock opens catalogs that others made and makes none", beside(c.path))
	case err != nil:
		return nil, fault.New(fault.Unavailable, "catalog %s: %w", c.name, err).In("", c.path).WithRemedy(unread)
	case !stat.Mode().IsRegular():
		return nil, fault.InvalidField("uri", "%s is not a file", c.path).In("", c.path).
			WithRemedy("name the catalog's SQLite file")
	default:
		return stat, nil
	}
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
func (c *sqliteFile) broken(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Op(err, "read catalog %s", c.name)
	}
	switch code(err) {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fault.New(fault.Corrupt, "catalog %s: %w", c.name, err).In("", c.path).
			WithRemedy("name the catalog's SQLite file in its uri, or restore it")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.New(fault.Unavailable, "catalog %s: another process holds %s locked: %w", c.name, c.path, err).In("", c.path).
			WithRemedy("try again when that process has written; if it stays locked, find the process (fuser %s) and end it, or have it commit", c.path)
	default:
		return fault.New(fault.Unavailable, "catalog %s: %w", c.name, err).In("", c.path).WithRemedy(unread)
	}
}

// unread is what helps where a file is there and is not read.
const unread = "see that this user may read the catalog's file and its folder"

// beside proposes a file of nearly the same name.
func beside(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if near := fault.Nearest(filepath.Base(path), names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// code is SQLite's primary result code of an error, or SQLITE_OK.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff
}
