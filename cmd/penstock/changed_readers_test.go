package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/stage"
)

// A writtenLake is a lake whose commands change tables.
type writtenLake struct{ lake }

// run runs a command with the lake's config file.
func (l writtenLake) run(t *testing.T, args ...string) ran {
	t.Helper()
	return run(t, append(args, "--config", l.config)...)
}

// change runs a command that succeeds, and returns its output.
func (l writtenLake) change(t *testing.T, args ...string) string {
	t.Helper()
	got := l.run(t, args...)
	require.Zero(t, got.code, got.stderr)
	return got.stdout
}

// refused runs a command that fails with an error that has the given texts.
func (l writtenLake) refused(t *testing.T, args []string, texts ...string) {
	t.Helper()
	got := l.run(t, args...)
	require.Equal(t, exitFailure, got.code, got.stdout)
	for _, text := range texts {
		require.Contains(t, got.stderr, text)
	}
}

// datasets replaces the configured datasets.
func (l *writtenLake) datasets(t *testing.T, datasets string) {
	t.Helper()
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: ".", writes: {namespaces: [features]}}
datasets:
`+datasets)
}

// newWrittenLake returns a lake with datasets, and with tables of the namespace features that have the given CSV.
func newWrittenLake(t *testing.T, datasets string, tables map[string]string) writtenLake {
	t.Helper()
	l := writtenLake{lake{dir: t.TempDir()}}
	_, done := newCatalog(t, l.dir)
	done()
	l.datasets(t, datasets)
	for table, rows := range tables {
		l.change(t, append(csvStage(t, l.lake, table, rows), "--key", "id", "--buckets", "2", "--no-check")...)
	}
	return l
}

// A promotion, its demotion and an undo report how datasets read the table. A dataset that the change
// breaks is named, with the exit code 4 and the command that takes the change back.
//
// spec: change-13
func TestChangesSayHowDatasetsReadTheTable(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 100), "other": rowsOf("f", 0, 200)})
	got := l.change(t, "promote", "clicks", "h")
	require.Contains(t, got, "\ndataset clicks: can be read; the table is its training table\n")
	require.Contains(t, got, "\nto take it back: penstock demote features.rows f --config "+l.config)
	got = l.change(t, "demote", "features.rows", "f", "--yes", "--json")
	var out struct{ Readers []stage.ReaderCheck }
	require.NoError(t, json.Unmarshal([]byte(got), &out))
	require.Equal(t, []stage.ReaderCheck{{Dataset: "clicks"}}, out.Readers)

	require.NotContains(t, l.change(t, "promote", "clicks", "h", "--no-check"), "\ndataset clicks: can be read")
	l.change(t, "demote", "features.rows", "f", "--yes", "--no-check")
	l.change(t, append(csvStage(t, l.lake, "h", rowsOf("f", 100, 200)), "--no-check")...)
	require.Contains(t, l.change(t, "undo", "features.h"), "\ndataset clicks: 50% of 200 sampled rows match (h)\n")

	var log struct{ Snapshots []struct{ Snapshot string } }
	require.NoError(t, json.Unmarshal([]byte(l.change(t, "log", "features.h", "--json")), &log))
	restore := []string{"restore", "features.h", "--snapshot", log.Snapshots[0].Snapshot, "--token", "back"}
	l.change(t, append(csvStage(t, l.lake, "h", "id,f\n300,1\n300,2\n"), "--allow-duplicates", "--no-check")...)
	require.NotContains(t, l.change(t, append(restore, "--dry-run")...), "dataset clicks")
	for range 2 { // a repeated command writes nothing
		require.Contains(t, l.change(t, restore...), "\ndataset clicks: 43.43% of 99 sampled rows match (h)\n")
	}
	require.NotContains(t, l.change(t, append(restore, "--no-check")...), "dataset clicks")
	require.NotContains(t, l.change(t, "undo", "features.other", "--yes"), "\ndataset ", "the table is dropped")
}

// A promotion is refused before it writes if another dataset joins a column of the same name. A demotion is refused if a dataset
// names the column.
//
// spec: promote-64, promote-65
func TestPromotionsThatBreakADataset(t *testing.T) {
	const clicks = `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
`
	l := newWrittenLake(t, clicks+`
  twice:
    training: {table: features.rows}
    key: [id]
    staging: [{name: other, table: features.other}]
  column:
    training: {table: features.rows, filter: "f = 1"}
    key: [id]
  alike:
    training: {table: features.rows}
    key: [id]
    staging: [{name: also, table: features.h, filter: "f > 0"}]
  joins:
    training: {table: features.other}
    key: [id]
    staging: [{name: rows, table: features.rows, columns: [label]}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 100), "other": rowsOf("f", 0, 200)})
	before := l.change(t, "log", "features.rows")
	for _, args := range [][]string{{"--dry-run"}, nil} {
		l.refused(t, append([]string{"promote", "clicks", "h"}, args...),
			"dataset twice could not be read after the promotion of column f of entry h: ", "other", "--no-check promotes nevertheless")
	}
	require.Equal(t, before, l.change(t, "log", "features.rows"), "nothing was written")

	got := l.change(t, "promote", "clicks", "h", "--no-check")
	require.Contains(t, got, "\nto take it back: penstock demote features.rows f --no-check --config "+l.config)
	for _, args := range [][]string{{"--dry-run"}, {"--yes"}} {
		l.refused(t, append([]string{"demote", "features.rows", "f"}, args...),
			"dataset column could not be read after column f is taken back: ", "--no-check takes the columns back nevertheless")
	}
	l.change(t, "demote", "features.rows", "f", "--yes", "--no-check")

	l.datasets(t, clicks+`
  plain: {training: {table: features.rows}, key: [id]}
`)
	l.change(t, "promote", "clicks", "h")
	for _, args := range [][]string{{"--dry-run"}, {"--yes"}} {
		got = l.change(t, append([]string{"demote", "features.rows", "f"}, args...)...)
		require.Contains(t, got, "\ndataset plain loses columns, whose entries it lacks: f\n")
		require.NotContains(t, got, "dataset clicks loses")
	}
}

// An overlay is not promoted if another dataset reads the columns that it replaces, unless that dataset has the entry, or has
// another entry of the same name and table, which takes its place.
//
// spec: promote-64, promote-65
func TestOverlaysOfOneDatasetAreNotPromoted(t *testing.T) {
	const fixed = `
  fixed:
    training: {table: features.rows}
    key: [id]
    staging: [{name: fix, table: features.fix, join: overlay}]
`
	l := newWrittenLake(t, fixed, map[string]string{"rows": rowsOf("f", 0, 20), "fix": rowsOf("f", 5, 10)})
	for name, c := range map[string]struct{ dataset, refused string }{
		"no entry":                  {"{training: {table: features.rows}, key: [id]}", "column f of dataset plain would have other values"},
		"another name":              {"{training: {table: features.rows}, key: [id], staging: [{name: mend, table: features.fix, join: overlay}]}", "column f of dataset plain would have other values"},
		"joins the table":           {"{training: {table: features.fix}, key: [id], staging: [{name: rows, table: features.rows, columns: [{column: f, name: g}]}]}", "column f of dataset plain would have other values"},
		"the entry":                 {"{training: {table: features.rows}, key: [id], staging: [{name: fix, table: features.fix, join: overlay}]}", ""},
		"an entry of the same name": {"{training: {table: features.rows}, key: [id], staging: [{name: fix, table: features.fix, join: overlay, filter: 'id > 7'}]}", ""},
		"another table":             {"{training: {table: features.fix}, key: [id]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l.datasets(t, fixed+"  plain: "+c.dataset+"\n")
			for _, args := range [][]string{{"--dry-run"}, nil} {
				if promote := append([]string{"promote", "fixed", "fix"}, args...); c.refused != "" {
					l.refused(t, promote, c.refused, "after the promotion of column f of entry fix")
				} else {
					l.change(t, promote...)
				}
			}
			if c.refused == "" {
				l.change(t, "demote", "features.rows", "f", "--yes")
				return
			}
			l.change(t, "promote", "fixed", "fix", "--no-check")
			l.refused(t, []string{"demote", "features.rows", "f", "--yes"}, c.refused, "after column f is taken back")
			l.change(t, "demote", "features.rows", "f", "--yes", "--no-check")
		})
	}
}

// A dataset that an earlier promotion broke is not broken by a stage, of the operator or of a client of a server.
//
// spec: stage-160, stage-171
func TestStagesDoNotBlameThemselvesForEarlierChanges(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
  twice:
    training: {table: features.rows}
    key: [id]
    staging: [{name: other, table: features.other}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 100), "other": rowsOf("f", 0, 200)})
	require.Contains(t, l.change(t, "stage", "features.other", l.file(t, "more.csv", rowsOf("f", 200, 201)), "--schema", "id: long, f: long"), "\ndataset twice: 100% of 101")
	l.change(t, "promote", "clicks", "h", "--no-check")
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	token := issued(t, tokens, "writer")
	server := start(t, "--config", l.config, "--tokens", tokens, "--policy", policyFile(t, `
rules:
- {subjects: [writer], read: ["*"], write: ["features.*"], allow: [stage]}
`))
	for i, source := range [][]string{{"--config", l.config}, {"--uri", server.uri(), "--token-file", token}} {
		for k, flags := range [][]string{nil, {"--branch", "trial"}} {
			id := 300 + 10*i + k
			got := run(t, slices.Concat(csvStage(t, l.lake, "other", rowsOf("f", id, id+1)), flags, source)...)
			require.Zero(t, got.code, got.stderr)
			require.Contains(t, got.stdout, "\ndataset twice: cannot be read, and could not be read before the change (other"+[]string{"", ", at branch trial instead of main"}[k]+"): ")
		}
	}
}

// Taking back the stage that made a branch breaks no dataset: none could read the branch before.
//
// spec: change-13
func TestRemovedBranchesBreakNoDataset(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
  trial:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, ref: trial}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 100)})
	got := l.change(t, append(csvStage(t, l.lake, "h", rowsOf("f", 100, 150)), "--branch", "trial")...)
	require.Contains(t, got, "\ndataset trial: 75% of 200")
	back := regexp.MustCompile(`penstock (undo features.h --branch trial --from none --to \d+) `).FindStringSubmatch(got)
	require.NotNil(t, back, got)
	got = l.change(t, strings.Fields(back[1])...)
	require.Equal(t, "branch trial of table features.h is removed\ndataset clicks: reads main, which stays as it is (h)\n"+
		"dataset trial: reads branch trial, which is removed: it can be read again when the branch exists (h)\n", got)
}

// New columns by which a dataset with promoted entries could not be read are refused.
//
// spec: stage-118
func TestNewColumnsThatClashWithPromotedEntries(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}, {name: other, table: features.other}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 100), "other": rowsOf("g", 0, 200)})
	l.change(t, "promote", "clicks", "h")
	evolve := append(csvStage(t, l.lake, "other", "id,g,f\n300,1,2\n"), "--evolve")
	l.refused(t, evolve, `dataset clicks cannot be read after the new columns "f" are added to table features.other: `)
}
