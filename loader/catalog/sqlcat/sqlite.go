package sqlcat

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Limits of the time that a call waits while another process has the catalog's file locked. They
// are well below the storage timeout, so that a lock is not mistaken for a disk that hangs. The
// time that the call already waited for other calls is subtracted.
const (
	maxLock = 5 * time.Second
	minLock = 50 * time.Millisecond
)

// lockTimeout returns how long a call waits for a lock, given the timeout of the call (0 is none)
// and the time that it already waited for other calls.
func lockTimeout(limit, waited time.Duration) time.Duration {
	wait := maxLock
	if limit > 0 {
		wait = min(wait, limit/2) //nolint:mnd // the other half of the timeout remains for the call itself
	}
	return max(wait-waited, minLock)
}

// restoreFile is the remedy for a file that is gone or no longer a catalog.
const restoreFile = "put the catalog's file back: the next query reads what is there then"

// sqliteFile is a catalog in a SQLite file. It keeps no connection open between calls.
type sqliteFile struct {
	name    string
	path    string
	calls   *store.Calls
	turn    chan struct{} // full while a connection is open
	waiting waiting
	limit   time.Duration // the timeout of a call; 0 is none
	clock   func() time.Time
	created func(file string) // see Options.Created
	// absent is true until the file exists, if the file may be created. A file without content, which
	// a program leaves that ends while it creates the catalog, counts as a file that does not exist.
	absent atomic.Bool
}

// ask opens the file, runs a question, and closes the file. Questions that read share the
// connection with others that are waiting. A connection that stayed open would read the old file
// after it was replaced.
//
// Only one connection is open at a time. In WAL mode, SQLite keeps shared memory in a file with a
// fixed name next to the database, and tracks the users of this memory with locks that have no
// effect within one process: a connection to a new file would clear memory that a connection to the
// old file still uses. One connection is enough, because a question takes well under a millisecond.
func (c *sqliteFile) ask(ctx context.Context, to purpose, q question) (string, error) {
	return store.Call(ctx, c.calls, string(to), c.path, func(ctx context.Context) (string, error) {
		switch to {
		case writing:
			return c.answer(ctx, c.connectToWrite, q)
		case newTable:
			return c.answer(ctx, c.connectToCreate, q)
		case reading:
		}
		return c.read(ctx, c.connect, q)
	})
}

// connectToWrite opens the existing SQLite file for writing.
func (c *sqliteFile) connectToWrite(ctx context.Context, wait time.Duration) (*sql.DB, error) {
	if _, err := c.file(); err != nil {
		return nil, c.missing(err)
	}
	return c.open(ctx, url.Values{"mode": {"rw"}, "_pragma": {busyPragma(wait)}})
}

// outcome returns the outcome of a failed statement. SQLite rolls back a statement that it cannot
// complete. After a disk error or a canceled call, the outcome is unknown.
func (c *sqliteFile) outcome(err error) (locator.Outcome, error) {
	broken := c.broken(err)
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return locator.Unknown, broken
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CONSTRAINT:
		return locator.Refused, fault.As(broken).WithRemedy("let the server write the catalog's file %s and the folder that it is in, or leave pin_tags and writes out", c.path)
	}
	return locator.Unknown, broken
}

// answer runs a question when no other question is running. If another question hangs, the wait
// ends with ctx.
func (c *sqliteFile) answer(ctx context.Context, connect func(context.Context, time.Duration) (*sql.DB, error), q question) (found string, err error) {
	asked := c.clock()
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	defer func() { err = c.ended(ctx, err) }()
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

// undefined reports whether err says that a table of the database does not exist.
func (c *sqliteFile) undefined(err error) bool {
	return code(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

// Close does nothing.
func (c *sqliteFile) Close() {}

// connect opens the SQLite file read-only.
func (c *sqliteFile) connect(ctx context.Context, wait time.Duration) (*sql.DB, error) {
	before, err := c.file()
	if err != nil {
		return nil, c.missing(err)
	}
	db, err := c.open(ctx, readOnly(wait, false))
	if err == nil {
		return db, nil
	}
	if mustRecover(err) {
		return c.recoverFile(ctx, wait)
	}
	if code(err) != sqlite3.SQLITE_CANTOPEN || hasJournal(c.path) {
		return nil, c.broken(err)
	}
	// The file may be in WAL mode on a read-only file system, where SQLite cannot create the shared
	// memory for coordinating with writers. The file is then opened as immutable. But if it was
	// replaced in the meantime, the new file may have writers, so it is not opened as immutable.
	if after, again := c.file(); again != nil || !os.SameFile(before, after) {
		return nil, c.broken(err)
	}
	if db, err = c.open(ctx, readOnly(wait, true)); err != nil {
		return nil, c.broken(err)
	}
	return db, nil
}

// mustRecover reports whether err says that the last writer of the file was killed in the middle of
// a change. The next connection that may write the file rolls the change back, or completes it if
// it is in the write-ahead log.
func mustRecover(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_READONLY_ROLLBACK || e.Code() == sqlite3.SQLITE_READONLY_RECOVERY)
}

// recoverFile opens the SQLite file with the access that recovery needs. Statements can still only read.
// See https://www.sqlite.org/lockingv3.html#hot_journals.
func (c *sqliteFile) recoverFile(ctx context.Context, wait time.Duration) (*sql.DB, error) {
	query := readOnly(wait, false)
	query.Set("mode", "rw")
	db, err := c.open(ctx, query)
	if err == nil {
		return db, nil
	}
	return nil, fault.As(c.broken(err)).WithRemedy("the last program that wrote the catalog was killed in the middle of a change: let this user write %s and "+
		"its folder once, or open it with a program that may", c.path)
}

// busyPragma makes a connection wait for locks.
func busyPragma(wait time.Duration) string {
	return "busy_timeout(" + strconv.FormatInt(wait.Milliseconds(), 10) + ")"
}

// readOnly returns the parameters to open a file for reading.
func readOnly(wait time.Duration, immutable bool) url.Values {
	query := url.Values{"mode": {"ro"}, "_pragma": {busyPragma(wait), "query_only(1)"}}
	if immutable {
		query.Set("immutable", "1")
	}
	return query
}

// open opens one connection and checks that the file is a SQLite file. It sets no option that would
// be written to the file, such as journal_mode.
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

// file checks that the SQLite file exists.
func (c *sqliteFile) file() (os.FileInfo, error) {
	switch stat, err := os.Stat(c.path); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && c.absent.Load() && stat.Mode().IsRegular() && stat.Size() == 0:
		return nil, fault.New(fault.NotFound, "catalog %s: there is no file %s", c.name, c.path).In("", c.path).
			WithRemedy("correct its uri%s; for a new catalog, allow writes in its block, and write its first table with penstock stage --config", beside(c.path))
	case err != nil:
		return nil, fault.New(fault.Unavailable, "catalog %s: %w", c.name, err).In("", c.path).WithRemedy(unread)
	case !stat.Mode().IsRegular():
		return nil, fault.InvalidField("uri", "%s is not a file", c.path).In("", c.path).
			WithRemedy("name the catalog's SQLite file")
	default:
		c.absent.Store(false)
		return stat, nil
	}
}

// The suffixes of the files that SQLite keeps next to a file: the write-ahead log, the journal and the
// shared memory.
const (
	walSuffix     = "-wal"
	journalSuffix = "-journal"
	shmSuffix     = "-shm"
)

func ownSuffixes() []string { return []string{walSuffix, journalSuffix, shmSuffix} }

// hasJournal reports whether a SQLite file has changes in a journal or write-ahead log.
func hasJournal(path string) bool {
	for _, suffix := range []string{walSuffix, journalSuffix} {
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

// unread is the remedy for an existing file that cannot be read.
const unread = "check that this user can read the catalog's file and its folder"

// beside returns a suggestion for an error about a missing file: a file in the same folder with a
// similar name. It returns "" if there is none.
func beside(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if of, _ := strings.CutPrefix(e.Name(), filepath.Base(path)); of != "" && !slices.Contains(ownSuffixes(), of) {
			names = append(names, e.Name())
		}
	}
	if near := fault.Nearest(filepath.Base(path), names); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// code returns SQLite's primary result code of an error, or SQLITE_OK.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff
}
