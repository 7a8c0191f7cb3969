package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/stage"
)

// A promotion, its demotion and an undo report how datasets read the table. A dataset that the change
// breaks is named, with the exit code 4 and the command that takes the change back.
//
// spec: change-13
func TestChangesSayHowDatasetsReadTheTable(t *testing.T) {
	l := lake{dir: t.TempDir()}
	_, done := newCatalog(t, l.dir)
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: ".", writes: {namespaces: [features]}}
datasets:
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
  twice:
    training: {table: features.rows}
    key: [id]
    staging: [{name: other, table: features.other}]
  column:
    training: {table: features.rows, filter: "f = 1"}
    key: [id]
`)
	change := func(args ...string) ran { return run(t, append(args, "--config", l.config)...) }
	for table, rows := range map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 100), "other": rowsOf("f", 0, 200)} {
		got := change(append(csvStage(t, l, table, rows), "--key", "id", "--buckets", "2", "--no-check")...)
		require.Zero(t, got.code, got.stderr)
	}
	const broken = "dataset twice: can no longer be read: "
	got := change("promote", "clicks", "h", "--dry-run")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, broken)

	got = change("promote", "clicks", "h")
	require.Equal(t, exitBroken, got.code, got.stdout)
	require.Contains(t, got.stdout, "\ndataset clicks: can be read; the table is its training table\n")
	require.Contains(t, got.stdout, broken)
	require.Contains(t, got.stderr, "the columns are in table features.rows, and dataset twice can no longer be read: ")
	require.Contains(t, got.stderr, "take it back: penstock demote features.rows f --config "+l.config)
	require.Contains(t, got.stdout, "\nto take it back: penstock demote features.rows f --config "+l.config)

	got = change("demote", "features.rows", "f", "--yes", "--json")
	require.Equal(t, exitBroken, got.code, got.stdout)
	require.Contains(t, got.stderr, "the columns are dropped from table features.rows, and dataset column can no longer be read: ")
	var out struct{ Readers []stage.ReaderCheck }
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Readers, 3)
	require.Nil(t, out.Readers[1].Failure)
	require.NotNil(t, out.Readers[2].Failure)
	got = change("promote", "clicks", "h", "--no-check")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, "\ndataset clicks: can be read")
	require.Zero(t, change("demote", "features.rows", "f", "--yes", "--no-check").code)

	require.Zero(t, change(append(csvStage(t, l, "h", rowsOf("f", 100, 200)), "--no-check")...).code)
	got = change("undo", "features.h")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "\ndataset clicks: 50% of 200 sampled rows match (h)\n")
	got = change("undo", "features.other", "--yes")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, "\ndataset ", "the table is dropped")
}

// An overlay is not promoted if another dataset reads the columns that it replaces, unless that dataset has the entry.
//
// spec: promote-64
func TestOverlaysOfOneDatasetAreNotPromoted(t *testing.T) {
	l := lake{dir: t.TempDir()}
	_, done := newCatalog(t, l.dir)
	done()
	config := `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: ".", writes: {namespaces: [features]}}
datasets:
  fixed:
    training: {table: features.rows}
    key: [id]
    staging: [{name: fix, table: features.fix, join: overlay}]
  plain:
    training: {table: features.rows}
    key: [id]
`
	l.config = l.file(t, "penstock.yaml", config)
	change := func(args ...string) ran { return run(t, append(args, "--config", l.config)...) }
	for table, rows := range map[string]string{"rows": rowsOf("f", 0, 20), "fix": rowsOf("f", 5, 10)} {
		got := change(append(csvStage(t, l, table, rows), "--key", "id", "--buckets", "2", "--no-check")...)
		require.Zero(t, got.code, got.stderr)
	}
	for _, args := range [][]string{{"--dry-run"}, nil} {
		got := change(append([]string{"promote", "fixed", "fix"}, args...)...)
		require.Equal(t, exitFailure, got.code, got.stdout)
		require.Contains(t, got.stderr, "entry fix is an overlay, and dataset plain reads table features.rows without it")
	}
	got := change("promote", "fixed", "fix", "--no-check")
	require.Zero(t, got.code, got.stderr)
	require.Zero(t, change("demote", "features.rows", "f", "--yes", "--no-check").code)
	l.config = l.file(t, "penstock.yaml", config+"    staging: [{name: fix, table: features.fix, join: overlay}]\n")
	got = change("promote", "fixed", "fix")
	require.Zero(t, got.code, got.stderr)
}
