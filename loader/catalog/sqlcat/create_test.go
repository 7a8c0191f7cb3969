package sqlcat_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat"
)

// creating returns the options of a catalog whose file may be created, and the number of calls of
// Created.
func creating(path string) (sqlcat.Options, *atomic.Int32) {
	made := &atomic.Int32{}
	return sqlcat.Options{
		Name: "prod", URI: "sqlite:///" + path, Calls: store.NewCalls(store.Options{Timeout: time.Minute}),
		Created: func(string) { made.Add(1) },
	}, made
}

func openNew(t *testing.T, o sqlcat.Options) *sqlcat.Catalog {
	t.Helper()
	c, err := sqlcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// The first new table creates the file. Reading and commits do not, also if a file without content
// exists.
//
// spec: catalog-37
func TestTheFirstTableCreatesTheFile(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, string){
		"no file": func(*testing.T, string) {},
		"a file without content": func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "catalog.db")
			prepare(t, path)
			o, made := creating(path)
			c := openNew(t, o)
			for range 2 {
				_, err := c.Locate(t.Context(), events())
				require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
				_, err = c.List(t.Context())
				require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
				found, err := c.LocateAll(t.Context(), []locator.Table{events()})
				require.NoError(t, err)
				require.Empty(t, found)
				outcome, err := c.Swap(t.Context(), events(), "s3://b/1.json", "s3://b/2.json")
				require.Error(t, err)
				require.NotEqual(t, locator.Committed, outcome)
			}
			require.Zero(t, made.Load())
			if stat, err := os.Stat(path); err == nil {
				require.Zero(t, stat.Size())
			}
			for i, want := range []locator.Outcome{locator.Committed, locator.Lost} {
				outcome, err := c.Insert(t.Context(), events(), "s3://b/"+string(rune('a'+i))+".json")
				require.NoError(t, err)
				require.Equal(t, want, outcome)
			}
			require.Equal(t, int32(1), made.Load())
			o.Created = nil
			at, err := openNew(t, o).Locate(t.Context(), events())
			require.NoError(t, err)
			require.Equal(t, "s3://b/a.json", at.Location)

			// A file that is gone afterwards is not created again.
			require.NoError(t, os.Remove(path))
			_, err = c.Locate(t.Context(), events())
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			_, err = c.Insert(t.Context(), events(), "s3://b/c.json")
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.NoFileExists(t, path)
		})
	}
}

// No file is created in a folder that does not exist, beside a file with a similar name, or if the
// options do not allow it. A file that another program writes meanwhile is used as it is, and a
// database of something else is not changed.
//
// spec: catalog-37, catalog-38
func TestFilesThatAreNotCreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refused := func(path string, says string) {
		t.Helper()
		o, _ := creating(path)
		_, err := sqlcat.Open(t.Context(), o)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
		require.Contains(t, fault.As(err).Remedy, says)
	}
	refused(filepath.Join(dir, "none", "catalog.db"), "create the folder "+filepath.Join(dir, "none"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalogs.db"), []byte("x"), 0o600))
	refused(filepath.Join(dir, "catalog.db"), "did you mean catalogs.db?")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.db"), nil, 0o600))
	o, _ := creating(filepath.Join(dir, "catalog.db"))
	outcome, err := openNew(t, o).Insert(t.Context(), events(), "s3://b/1.json")
	require.NoError(t, err)
	require.Equal(t, locator.Committed, outcome)
	o, _ = creating(filepath.Join(t.TempDir(), "catalog.db"))
	o.Created = nil
	_, err = sqlcat.Open(t.Context(), o)
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	path := filepath.Join(t.TempDir(), "catalog.db")
	o, made := creating(path)
	c := openNew(t, o)
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	execute(t, db, `CREATE TABLE songs (name TEXT)`)
	_, err = c.Insert(t.Context(), events(), "s3://b/1.json")
	require.Error(t, err)
	require.Zero(t, made.Load())
	var tables int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM sqlite_master`).Scan(&tables))
	require.Equal(t, 1, tables)
	execute(t, db, oldTables)
	outcome, err = c.Insert(t.Context(), events(), "s3://b/1.json")
	require.NoError(t, err)
	require.Equal(t, locator.Committed, outcome)
}

// Of programs that create the file at the same time, each adds its table to it.
//
// spec: catalog-37
func TestManyCreateTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog.db")
	group, ctx := errgroup.WithContext(t.Context())
	for i := range 8 {
		o, _ := creating(path)
		c := openNew(t, o)
		group.Go(func() error {
			outcome, err := c.Insert(ctx, locator.Table{Name: "ml.t", Parts: []string{"ml", "t" + string(rune('a'+i))}}, "s3://b/1.json")
			if err == nil && outcome != locator.Committed {
				t.Errorf("outcome %v", outcome)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	o, _ := creating(path)
	found, err := openNew(t, o).List(t.Context())
	require.NoError(t, err)
	require.Len(t, found, 8)
}
