package sqlcat_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
)

// owned is a catalog's database, as its owner sees it.
type owned struct {
	db    *sql.DB
	o     sqlcat.Options
	block string // makes every change of a row fail
}

func sqlite(t *testing.T, mode string) owned {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode("+mode+")&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return owned{
		db,
		sqlcat.Options{Name: "prod", URI: "sqlite:///" + path, Calls: store.NewCalls(store.Options{Timeout: time.Minute})},
		`CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'no'); END`,
	}
}

// one is the row of events.
func (d owned) one(t *testing.T) (now, before string) {
	t.Helper()
	var previous sql.NullString
	require.NoError(t, d.db.QueryRowContext(t.Context(),
		`SELECT metadata_location, previous_metadata_location FROM iceberg_tables WHERE catalog_name = 'prod' AND table_name = 'events'`).Scan(&now, &previous))
	return now, previous.String
}

func (d owned) open(t *testing.T) *sqlcat.Catalog {
	t.Helper()
	c, err := sqlcat.Open(t.Context(), d.o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestSwap(t *testing.T) {
	kinds := map[string]func(*testing.T) owned{
		"sqlite":     func(t *testing.T) owned { return sqlite(t, "DELETE") },
		"sqlite WAL": func(t *testing.T) owned { return sqlite(t, "WAL") },
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) { swaps(t, make(t)) })
	}
	t.Run("postgres", func(t *testing.T) {
		s := postgrestest.Start(t)
		uri := s.Database(t)
		swaps(t, owned{
			connect(t, uri),
			sqlcat.Options{Name: "prod", URI: uri, Timeout: time.Minute},
			`CREATE FUNCTION no() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '42501'; END $$ LANGUAGE plpgsql;
			CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables FOR EACH ROW EXECUTE FUNCTION no()`,
		})
	})
}

func swaps(t *testing.T, d owned) {
	execute(t, d.db, oldTables, insert("events", "s3://b/1.json"), insert("other", "s3://b/1.json"),
		`INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES ('dev', 'ml', 'events', 's3://b/1.json')`)
	c := d.open(t)
	outcome, err := c.Swap(t.Context(), events(), "s3://b/1.json", "s3://b/2.json")
	require.NoError(t, err)
	require.Equal(t, locator.Committed, outcome)
	now, before := d.one(t)
	require.Equal(t, []string{"s3://b/2.json", "s3://b/1.json"}, []string{now, before})
	var left int
	require.NoError(t, d.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM iceberg_tables WHERE metadata_location = 's3://b/1.json'`).Scan(&left))
	require.Equal(t, 2, left, "rows of other tables and catalogs stay")

	// The second swap changes nothing.
	outcome, err = c.Swap(t.Context(), events(), "s3://b/1.json", "s3://b/3.json")
	require.NoError(t, err)
	require.Equal(t, locator.Lost, outcome)
	now, before = d.one(t)
	require.Equal(t, []string{"s3://b/2.json", "s3://b/1.json"}, []string{now, before})

	// Of many at once one wins.
	outcomes := make(chan locator.Outcome, 8)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range cap(outcomes) {
		group.Go(func() error {
			outcome, err := c.Swap(ctx, events(), "s3://b/2.json", "s3://b/by-"+string(rune('a'+i))+".json")
			outcomes <- outcome
			return err
		})
	}
	require.NoError(t, group.Wait())
	close(outcomes)
	won := 0
	for outcome := range outcomes {
		require.Contains(t, []locator.Outcome{locator.Committed, locator.Lost}, outcome)
		if outcome == locator.Committed {
			won++
		}
	}
	require.Equal(t, 1, won)

	// A refusal changes nothing, and says what helps.
	execute(t, d.db, d.block)
	now, _ = d.one(t)
	outcome, err = c.Swap(t.Context(), events(), now, "s3://b/4.json")
	require.Equal(t, locator.Refused, outcome)
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, "commit to table ml.events")
	require.ErrorContains(t, err, "leave pin_tags and writes out")
	after, _ := d.one(t)
	require.Equal(t, now, after)

	// A cancelled call does not know the outcome.
	ended, end := context.WithCancel(t.Context())
	end()
	outcome, err = c.Swap(ended, events(), now, "s3://b/5.json")
	require.Equal(t, locator.Unknown, outcome)
	require.ErrorIs(t, err, context.Canceled)
}

// A file that another connection writes to for too long is not refused: a later attempt may
// succeed.
func TestSwapOfABusyFile(t *testing.T) {
	d := sqlite(t, "DELETE")
	execute(t, d.db, oldTables, insert("events", "s3://b/1.json"))
	d.o.Timeout = 100 * time.Millisecond
	c := d.open(t)
	tx, err := d.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), `UPDATE iceberg_tables SET metadata_location = 's3://b/1.json'`)
	require.NoError(t, err)
	outcome, err := c.Swap(t.Context(), events(), "s3://b/1.json", "s3://b/2.json")
	require.NoError(t, tx.Rollback())
	require.Equal(t, locator.Unknown, outcome)
	require.ErrorContains(t, err, "locked")
	now, _ := d.one(t)
	require.Equal(t, "s3://b/1.json", now)
}

// A file that another process has locked is not reported as a failure of the disk, however
// many calls wait for it.
func TestLockedFile(t *testing.T) {
	for _, mode := range []string{"DELETE", "WAL"} {
		t.Run(mode, func(t *testing.T) {
			d := sqlite(t, mode)
			execute(t, d.db, oldTables, insert("events", "s3://b/1.json"))
			d.o.Timeout = 100 * time.Millisecond
			c := d.open(t)
			d.db.SetMaxOpenConns(1)
			if mode == "WAL" { // readers do not wait for writers
				execute(t, d.db, `PRAGMA locking_mode = EXCLUSIVE`)
			}
			execute(t, d.db, `BEGIN EXCLUSIVE`)
			path := strings.TrimPrefix(d.o.URI, "sqlite:///")
			locked := func(err error) {
				t.Helper()
				require.Equal(t, fault.Unavailable, fault.KindOf(err))
				require.ErrorContains(t, err, "catalog prod: another process holds "+path+" locked")
				require.Contains(t, fault.As(err).Remedy, "try again")
				require.Contains(t, fault.As(err).Remedy, "fuser "+path)
			}
			failures := make(chan error)
			for range 8 {
				go func() {
					_, err := c.List(t.Context())
					failures <- err
				}()
			}
			for range 8 {
				locked(<-failures)
			}
			_, err := sqlcat.Open(t.Context(), d.o)
			locked(err)
			outcome, err := c.Swap(t.Context(), events(), "s3://b/1.json", "s3://b/2.json")
			require.Equal(t, locator.Unknown, outcome)
			locked(err)
			execute(t, d.db, `ROLLBACK`)
			if mode == "WAL" {
				execute(t, d.db, `PRAGMA locking_mode = NORMAL`, `SELECT * FROM iceberg_tables`)
			}
			found, err := c.List(t.Context())
			require.NoError(t, err)
			require.Equal(t, [][]string{{"ml", "events"}}, found)
		})
	}
}

// A row is deleted only while its location is the expected one, and no other row is.
//
// spec: write-70
func TestDelete(t *testing.T) {
	deletes := func(t *testing.T, d owned) {
		t.Helper()
		execute(t, d.db, oldTables, insert("events", "s3://b/1.json"), insert("other", "s3://b/1.json"),
			`INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES ('dev', 'ml', 'events', 's3://b/1.json')`)
		c := d.open(t)
		for _, one := range []struct {
			from string
			want locator.Outcome
		}{{"s3://b/2.json", locator.Lost}, {"s3://b/1.json", locator.Committed}, {"s3://b/1.json", locator.Lost}} {
			outcome, err := c.Delete(t.Context(), events(), one.from)
			require.NoError(t, err)
			require.Equal(t, one.want, outcome)
		}
		var left int
		require.NoError(t, d.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM iceberg_tables`).Scan(&left))
		require.Equal(t, 2, left)
	}
	t.Run("sqlite", func(t *testing.T) { deletes(t, sqlite(t, "DELETE")) })
	t.Run("postgres", func(t *testing.T) {
		uri := postgrestest.Start(t).Database(t)
		deletes(t, owned{db: connect(t, uri), o: sqlcat.Options{Name: "prod", URI: uri, Timeout: time.Minute}})
	})
}

// A row is inserted once, and only under a name that is free.
func TestInsert(t *testing.T) {
	inserts := func(t *testing.T, d owned) {
		t.Helper()
		execute(t, d.db, oldTables, insert("other", "s3://b/1.json"))
		c := d.open(t)
		for i, want := range []locator.Outcome{locator.Committed, locator.Lost} {
			outcome, err := c.Insert(t.Context(), events(), "s3://b/"+string(rune('a'+i))+".json")
			require.NoError(t, err)
			require.Equal(t, want, outcome)
		}
		now, before := d.one(t)
		require.Equal(t, []string{"s3://b/a.json", ""}, []string{now, before})
		found, err := c.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, [][]string{{"ml", "events"}, {"ml", "other"}}, found)

		execute(t, d.db, strings.Replace(insert("rest", "s3://b/x.json"), "prod", "another", 1))
		outcome, err := c.Swap(t.Context(), events(), "s3://b/a.json", "s3://b/b.json")
		require.NoError(t, err)
		require.Equal(t, locator.Committed, outcome)
		current, err := c.ListCurrent(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"s3://b/1.json", "s3://b/a.json", "s3://b/b.json", "s3://b/x.json"}, current)
	}
	t.Run("sqlite", func(t *testing.T) { inserts(t, sqlite(t, "WAL")) })
	t.Run("postgres", func(t *testing.T) {
		uri := postgrestest.Start(t).Database(t)
		inserts(t, owned{db: connect(t, uri), o: sqlcat.Options{Name: "prod", URI: uri, Timeout: time.Minute}})
	})
}

// A swap does not create a catalog file that is gone.
func TestSwapDoesNotCreateTheFile(t *testing.T) {
	d := sqlite(t, "DELETE")
	execute(t, d.db, oldTables, insert("events", "s3://b/1.json"))
	c := d.open(t)
	path := strings.TrimPrefix(d.o.URI, "sqlite:///")
	require.NoError(t, os.Rename(path, path+".away"))
	outcome, err := c.Swap(t.Context(), events(), "s3://b/1.json", "s3://b/2.json")
	require.Equal(t, locator.Unknown, outcome)
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.NoFileExists(t, path)
	require.NoError(t, os.Rename(path+".away", path))
}
