package sqlcat_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
)

// killed returns the file of a catalog whose writer was killed in the middle of a change: its journal has the pages that
// the change overwrote.
func killed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=cache_size(2)")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	defer func() { require.NoError(t, db.Close()) }()
	run := func(statement string) {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	run(`CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT, previous_metadata_location TEXT)`)
	run(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO iceberg_tables SELECT 'prod', 'ml', 't' || i, 'before ' || i, NULL FROM n`)
	run(`BEGIN`)
	run(`UPDATE iceberg_tables SET metadata_location = 'after'`)
	after := filepath.Join(t.TempDir(), "catalog.db")
	for _, suffix := range []string{"", "-journal"} {
		text, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(after+suffix, text, 0o600))
	}
	run(`ROLLBACK`)
	return after
}

// A change whose writer was killed is rolled back by the next reader, as SQLite does for every connection that may
// write the file.
//
// spec: catalog-36
func TestChangesOfKilledWritersAreRolledBack(t *testing.T) {
	t.Parallel()
	path := killed(t)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "after", "the file has a part of the change")
	c, err := sqlcat.Open(t.Context(), sqlcat.Options{Name: "prod", URI: "sqlite:///" + path, Calls: store.NewCalls(store.Options{Timeout: time.Minute})})
	require.NoError(t, err)
	defer c.Close()
	at, err := c.Locate(t.Context(), locator.Table{Name: "ml.t1999", Parts: []string{"ml", "t1999"}})
	require.NoError(t, err)
	require.Equal(t, "before 1999", at.Location)
	require.NoFileExists(t, path+"-journal")
}
