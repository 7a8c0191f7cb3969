package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// newHouse returns a folder with a config file whose catalog does not exist yet.
func newHouse(t *testing.T) lake {
	t.Helper()
	l := lake{dir: t.TempDir()}
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: warehouse, writes: {namespaces: [features, ml]}}
datasets:
  home:
    training: {table: ml.impressions}
    key: [id]
    staging: [{table: features.history}]
`)
	return l
}

// The first stage creates the catalog, and another table is added to it. Commands that read, and a
// stage that writes nothing, create none.
//
// spec: catalog-37
func TestTheFirstStageCreatesTheCatalog(t *testing.T) {
	l := newHouse(t)
	rows := l.file(t, "rows.jsonl", "{\"id\": 1, \"label\": true}\n{\"id\": 2, \"label\": false}\n")
	features := l.file(t, "features.jsonl", "{\"id\": 1, \"clicks\": 7}\n")
	on := func(args ...string) ran { return run(t, append(args, "--config", l.config)...) }
	for _, args := range [][]string{
		{"datasets"},
		{"tables"},
		{"log", "ml.impressions"},
		{"diff", "ml.impressions"},
		{"stats", "ml.impressions"},
		{"undo", "ml.impressions"},
		{"cat", "home"},
		{"compact", "ml.impressions"},
		{"orphans", "ml.impressions"},
		{"stage", "ml.impressions", rows},
		{"stage", "other.impressions", rows, "--schema", "id: long, label: boolean", "--key", "id", "--buckets", "4"},
	} {
		got := on(args...)
		require.NotZero(t, got.code, args)
		require.NoFileExists(t, filepath.Join(l.dir, "catalog.db"), args)
	}
	require.Contains(t, on("tables").stderr, "there is no file "+filepath.Join(l.dir, "catalog.db"))
	first := []string{"stage", "ml.impressions", rows, "--schema", "id: long, label: boolean", "--key", "id", "--buckets", "4"}
	got := on(append(first, "--dry-run")...)
	require.Zero(t, got.code, got.stderr)
	require.NoFileExists(t, filepath.Join(l.dir, "catalog.db"))

	got = on(first...)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "created catalog default, the file "+filepath.Join(l.dir, "catalog.db")+"\nsnapshot ")
	got = on("stage", "features.history", features, "--schema", "id: long, clicks: int", "--key", "id", "--like", "ml.impressions")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, "created catalog")
	require.Equal(t, "id,label,clicks\n1,true,7\n2,false,\n", on("cat", "home", "--format", "csv").stdout)
	c, done := openCatalogOf(t, l.dir)
	t.Cleanup(done)
	found, err := c.ListNamespaces(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, found, 2)
}

// A stage whose rows cannot be read creates no catalog.
//
// spec: catalog-37
func TestAFailedStageCreatesNoCatalog(t *testing.T) {
	l := newHouse(t)
	broken := l.file(t, "rows.parquet", "PAR1 and nothing else")
	got := run(t, "stage", "ml.impressions", broken, "--key", "id", "--buckets", "4", "--config", l.config)
	require.NotZero(t, got.code)
	entries, err := os.ReadDir(l.dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotEqual(t, "catalog.db", e.Name())
	}
}
