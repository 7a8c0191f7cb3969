package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// evolvingLake returns a lake whose dataset clicks joins features.h to the training table
// features.rows. Dataset broken cannot be read. Dataset past reads features.h at its first snapshot.
func evolvingLake(t *testing.T) lake {
	t.Helper()
	l := lake{dir: t.TempDir()}
	_, done := newCatalog(t, l.dir)
	done()
	const catalogs = "catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\", warehouse: \".\", writes: {namespaces: [features]}}\n"
	l.config = l.file(t, "penstock.yaml", catalogs)
	for table, rows := range map[string]string{"rows": "id,label\n1,1\n2,0\n", "h": "id,f\n1,5\n"} {
		got := run(t, append(csvStage(t, l, table, rows), "--key", "id", "--buckets", "2", "--config", l.config)...)
		require.Zero(t, got.code, got.stderr)
	}
	var log struct {
		Snapshots []struct{ Snapshot json.Number }
	}
	require.NoError(t, json.Unmarshal([]byte(run(t, "log", "features.h", "--json", "--config", l.config).stdout), &log))
	l.config = l.file(t, "penstock.yaml", fmt.Sprintf(catalogs+`
datasets:
  past:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, snapshot: %s}]
  broken:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, columns: [none]}]
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
`, log.Snapshots[0].Snapshot))
	require.NotZero(t, run(t, "cat", "broken", "--config", l.config).code)
	return l
}

// csvStage returns a command that stages rows, which are CSV of numbers, to a table.
func csvStage(t *testing.T, l lake, table, rows string) []string {
	t.Helper()
	columns, _, _ := strings.Cut(rows, "\n")
	types := strings.ReplaceAll(columns, ",", ": long, ") + ": long"
	return []string{"stage", "features." + table, l.file(t, table+".csv", rows), "--schema", types}
}

// New columns by which a dataset could no longer be read are refused before a row is read, with the
// name of the dataset, in a training table and in a staging table. Others are added.
//
// spec: stage-118
func TestColumnsThatWouldBreakDatasetsAreNotAdded(t *testing.T) {
	l := evolvingLake(t)
	stage := func(table, rows string, args ...string) ran {
		return run(t, append(append(csvStage(t, l, table, rows), "--evolve", "--config", l.config), args...)...)
	}
	const h, rows = "id,f,label\n4,6,7\n", "id,label,f\n3,1,6\n"
	for table, refused := range map[string]string{"h": h, "rows": rows} {
		first := map[string]string{"h": "dataset clicks", "rows": "dataset past"}[table]
		for _, args := range [][]string{nil, {"--dry-run"}, {"--branch", "candidate"}} {
			got := stage(table, refused, args...)
			require.Equal(t, exitFailure, got.code, "%s %v", table, args)
			require.Contains(t, got.stderr, first+" cannot be read after the new columns", "%s %v", table, args)
			require.Contains(t, got.stderr, "has the name of a column of the training table")
			require.Contains(t, got.stderr, "rename or leave out the column")
		}
	}
	require.Zero(t, run(t, "cat", "clicks", "--config", l.config).code)
	require.Zero(t, stage("h", "id,f,g\n3,6,7\n").code)
	require.Zero(t, run(t, "cat", "clicks", "--config", l.config).code)

	// Snapshots and tags keep their schema, and a dataset that cannot be read anyway is not broken.
	text := string(must(os.ReadFile(l.config)))
	before, _, _ := strings.Cut(text, "  clicks:")
	tag(t, l, "h", "kept")
	l.config = l.file(t, "penstock.yaml", before+"  tagged: {training: {table: features.rows}, key: [id], staging: [{name: h, table: features.h, ref: kept}]}\n")
	got := stage("h", h)
	require.Zero(t, got.code, got.stderr)
	for _, name := range []string{"past", "tagged"} {
		require.Zero(t, run(t, "cat", name, "--config", l.config).code)
	}
}

// tag tags the current snapshot of a table.
func tag(t *testing.T, l lake, table, name string) {
	t.Helper()
	c, done := openCatalogOf(t, l.dir)
	defer done()
	of, err := c.LoadTable(t.Context(), icetable.Identifier{"features", table})
	require.NoError(t, err)
	_, _, err = c.CommitTable(t.Context(), of.Identifier(), nil, []icetable.Update{
		icetable.NewSetSnapshotRefUpdate(name, of.CurrentSnapshot().SnapshotID, icetable.TagRef, 0, 0, 0),
	})
	require.NoError(t, err)
}

// A server names and describes only datasets that the caller may read.
//
// spec: stage-118
func TestColumnsThatWouldBreakDatasetsOfOthers(t *testing.T) {
	l := evolvingLake(t)
	for reads, want := range map[string]string{"clicks": "dataset clicks cannot be read", "past": "a dataset of the server cannot be read"} {
		policy := policyFile(t, fmt.Sprintf("rules: [{subjects: [\"*\"], read: [%s], write: [features.*], allow: [stage]}]\n", reads))
		server := start(t, "--config", l.config, "--policy", policy)
		got := run(t, append(csvStage(t, l, "h", "id,f,label\n3,6,7\n"), "--evolve", "--uri", server.uri())...)
		require.Equal(t, exitFailure, got.code)
		require.Contains(t, got.stderr, want)
		require.Equal(t, reads == "clicks", strings.Contains(got.stderr, "training table features.rows"), got.stderr)
	}
}
