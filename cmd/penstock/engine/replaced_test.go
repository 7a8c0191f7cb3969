package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// After the catalog's database file is replaced, queries are planned from the new file.
func TestReplacedCatalogIsPlannedAgain(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for of, first := range map[string]int{dir: 0, other: 1000} {
		c, done := newCatalog(t, of)
		createIDs(t, c, "ml.ids", filepath.Join(of, "part.parquet"), first)
		done()
	}
	e := assembled(t, loaded(t, dir, `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", allowed_prefixes: [/]}}
datasets: {d: {training: {table: ml.ids}, key: [id]}}
`, nil))
	require.Equal(t, int64(5), rowsOf(t, e, "id >= 5 AND id < 1005"))

	path := filepath.Join(dir, "catalog.db")
	require.NoError(t, os.Rename(path, path+".old"))
	_, err := e.Loader.Plan(t.Context(), dataset.Query{Rows: dataset.Rows{Dataset: "d"}})
	require.ErrorContains(t, err, "there is no file "+path)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))

	require.NoError(t, os.Rename(filepath.Join(other, "catalog.db"), path))
	require.Equal(t, int64(5), rowsOf(t, e, "id >= 5 AND id < 1005"))
	require.Zero(t, rowsOf(t, e, "id < 1000"))
	require.NoError(t, os.Rename(path+".old", path))
	require.Zero(t, rowsOf(t, e, "id >= 1000"))
}
