package sqlcat

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fileOf returns a catalog file with a table of one row.
func fileOf(t *testing.T) *sqliteFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE t (v INTEGER); INSERT INTO t VALUES (1)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return &sqliteFile{name: "c", path: path, clock: time.Now}
}

// Questions that wait for a connection share the next one; one whose context ends, or whose connection
// fails, ends alone.
func TestQuestionsShareConnections(t *testing.T) {
	t.Parallel()
	c := fileOf(t)
	synctest.Test(t, func(t *testing.T) {
		c.turn = make(chan struct{}, 1) // of the bubble
		var opened atomic.Int64
		broken := errors.New("no connection")
		connect := func(ctx context.Context, wait time.Duration) (*sql.DB, error) {
			if opened.Add(1) == 1 {
				return nil, broken
			}
			return c.connect(ctx, wait)
		}
		c.turn <- struct{}{} // another question runs
		const questions = 8
		answers, failures := make([]string, questions), make([]error, questions)
		left, leave := context.WithCancel(t.Context())
		for i := range questions {
			ctx := t.Context()
			if i == 3 {
				ctx = left
			}
			go func() {
				answers[i], failures[i] = c.read(ctx, connect, func(ctx context.Context, db *sql.DB) (string, error) {
					var v int
					err := db.QueryRowContext(ctx, `SELECT v + ? FROM t`, i).Scan(&v)
					return strconv.Itoa(v), err
				})
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		require.ErrorIs(t, failures[3], context.Canceled)
		<-c.turn
		synctest.Wait()
		require.EqualValues(t, 2, opened.Load(), "one that failed, and one for all others")
		failed := 0
		for i, err := range failures {
			switch {
			case i == 3:
			case errors.Is(err, broken):
				failed++
			default:
				require.NoError(t, err)
				require.Equal(t, strconv.Itoa(i+1), answers[i])
			}
		}
		require.Equal(t, 1, failed, "the one that opened the connection")
		require.Empty(t, c.waiting.list())
	})
}

// A question that comes while a connection is opened gets a newer one.
func TestLaterQuestionsAreNotShared(t *testing.T) {
	t.Parallel()
	c := fileOf(t)
	synctest.Test(t, func(t *testing.T) {
		c.turn = make(chan struct{}, 1) // of the bubble
		opened := 0
		var later error
		nothing := func(context.Context, *sql.DB) (string, error) { return "", nil }
		var connect func(ctx context.Context, wait time.Duration) (*sql.DB, error)
		connect = func(ctx context.Context, wait time.Duration) (*sql.DB, error) {
			if opened++; opened == 1 {
				go func() { _, later = c.read(t.Context(), connect, nothing) }()
				synctest.Wait() // until it waits
			}
			return c.connect(ctx, wait)
		}
		_, err := c.read(t.Context(), connect, nothing)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, later)
		require.Equal(t, 2, opened)
	})
}
