package sqlcat_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect opens a database as its owner does.
func connect(t *testing.T, uri string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", strings.Replace(uri, "+psycopg2", "", 1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
}

// The tables of a catalog, as writers before and since views make them.
const (
	oldTables = `CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
		table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
		PRIMARY KEY (catalog_name, table_namespace, table_name))`
	addType = `ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)`
)

func insert(name, location string) string {
	return fmt.Sprintf(`INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES ('prod', 'ml', '%s', '%s')`, name, location)
}

func events() locator.Table { return locator.Table{Name: "ml.events", Parts: []string{"ml", "events"}} }

func TestPostgres(t *testing.T) {
	s := postgrestest.Start(t)
	open := func(t *testing.T, o sqlcat.Options) *sqlcat.Catalog {
		t.Helper()
		o.Name = "prod"
		c, err := sqlcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	t.Run("a catalog that gains the column of views", func(t *testing.T) {
		uri := s.Database(t)
		db := connect(t, uri)
		execute(t, db, oldTables, insert("events", "s3://b/1.json"), insert("recent", "s3://b/2.json"))
		c := open(t, sqlcat.Options{URI: uri})
		for _, statement := range []string{"SELECT 1", addType, `UPDATE iceberg_tables SET iceberg_type = 'TABLE' WHERE table_name = 'events'`} {
			execute(t, db, statement)
			at, err := c.Locate(t.Context(), events())
			require.NoError(t, err)
			require.Equal(t, locator.Located{Location: "s3://b/1.json"}, at)
		}
		execute(t, db, `UPDATE iceberg_tables SET iceberg_type = 'VIEW' WHERE table_name = 'recent'`)
		_, err := c.Locate(t.Context(), locator.Table{Name: "ml.recent", Parts: []string{"ml", "recent"}})
		require.EqualError(t, err, "ml.recent is a view, not a table; name a table: views are not served")
		_, err = c.Locate(t.Context(), locator.Table{Name: "ml.event", Parts: []string{"ml", "event"}})
		require.Equal(t, fault.NotFound.String(), fault.KindOf(err).String())
		require.Equal(t, "ml.events", fault.As(err).Faults[0].Nearest)
	})
	t.Run("schemes", func(t *testing.T) {
		uri := s.Database(t)
		execute(t, connect(t, uri), oldTables, insert("events", "s3://b/1.json"))
		_, rest, _ := strings.Cut(uri, "://")
		for _, scheme := range []string{"postgresql", "postgres", "postgresql+psycopg2", "postgresql+psycopg", "postgresql+asyncpg"} {
			_, err := open(t, sqlcat.Options{URI: scheme + "://" + rest}).Locate(t.Context(), events())
			require.NoError(t, err)
		}
	})
	t.Run("it is not as it should be", func(t *testing.T) {
		empty := s.Database(t)
		good := s.URI("postgresql", "postgres")
		for name, c := range map[string]struct {
			uri, text string
			kind      fault.Kind
		}{
			"no tables":      {empty, "holds no Iceberg catalog: it has no table iceberg_tables", fault.Invalid},
			"no database":    {s.URI("postgresql", "none"), "correct the database of its uri", fault.Unavailable},
			"wrong password": {strings.Replace(good, postgrestest.User+":", postgrestest.User+":x", 1), "correct user and password of its uri", fault.Unavailable},
			"no server":      {"postgresql://u:s3cr@127.0.0.1:1/db", "check that the server of its uri responds", fault.Unavailable},
			"no escapes":     {"postgresql://u:s3cr%zz@127.0.0.1:1/db", "special characters of the password escaped", fault.Invalid},
			"no such option": {"postgresql://u:s3cr@127.0.0.1:1/db?sslmode=some", "it is not the URI of a PostgreSQL database", fault.Invalid},
		} {
			_, err := sqlcat.Open(t.Context(), sqlcat.Options{Name: "prod", URI: c.uri, Timeout: time.Minute})
			require.ErrorContains(t, err, c.text, name)
			require.Equal(t, c.kind.String(), fault.KindOf(err).String(), name)
			require.NotContains(t, err.Error(), "s3cr", name)
		}
	})
	t.Run("a writer holds the table", func(t *testing.T) {
		uri := s.Database(t)
		db := connect(t, uri)
		execute(t, db, oldTables, insert("events", "s3://b/1.json"))
		patient, hasty := open(t, sqlcat.Options{URI: uri}), open(t, sqlcat.Options{URI: uri, Timeout: 300 * time.Millisecond})
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `LOCK TABLE iceberg_tables IN ACCESS EXCLUSIVE MODE`)
		require.NoError(t, err)
		_, err = hasty.Locate(t.Context(), events())
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
		require.ErrorContains(t, err, "did not answer within 300ms")
		_, err = hasty.LocateAll(t.Context(), []locator.Table{events()})
		require.ErrorContains(t, err, "did not answer within 300ms")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(context.Canceled) })
		_, err = patient.Locate(ctx, events())
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, tx.Rollback())
		for _, c := range []*sqlcat.Catalog{patient, hasty} {
			_, err = c.Locate(t.Context(), events())
			require.NoError(t, err)
		}
		execute(t, db, `ALTER TABLE iceberg_tables RENAME TO gone`)
		_, err = patient.Locate(t.Context(), events())
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "the query is right, and may come again")
		require.ErrorContains(t, err, "restore the catalog's tables")
	})
	t.Run("the server ends", func(t *testing.T) {
		uri := s.Database(t)
		execute(t, connect(t, uri), oldTables, insert("events", "s3://b/1.json"))
		c := open(t, sqlcat.Options{URI: uri, Timeout: time.Minute})
		s.Stop()
		_, err := c.Locate(t.Context(), events())
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
		require.NotContains(t, err.Error(), "s3cr")
	})
}
