package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/stage"
)

// rowsOf returns CSV with the ids of a range, and another column that is 1.
func rowsOf(column string, from, to int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "id,%s\n", column)
	for id := from; id < to; id++ {
		fmt.Fprintf(&b, "%d,1\n", id)
	}
	return b.String()
}

// emptyLake returns a lake with an empty catalog that allows writes to the namespace features, and with the given datasets.
func emptyLake(t *testing.T, datasets string) lake {
	t.Helper()
	l := lake{dir: t.TempDir()}
	_, done := newCatalog(t, l.dir)
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: ".", writes: {namespaces: [features]}}
datasets:`+datasets)
	return l
}

// stagedLake returns a lake whose training table features.rows has the ids 0 to 199, and whose
// datasets read features.h.
func stagedLake(t *testing.T) lake {
	t.Helper()
	l := emptyLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
  semi:
    training: {table: features.rows, filter: "id < 100"}
    key: [id]
    staging: [{table: default.features.h, join: semi}]
  tried:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, ref: trial}]
  alone: {training: {table: features.h}, key: [id]}
  broken:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, columns: [none]}]
`)
	got := run(t, append(csvStage(t, l, "rows", rowsOf("label", 0, 200)), "--key", "id", "--buckets", "2", "--no-check", "--config", l.config)...)
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, "dataset ", "nothing is checked")
	return l
}

// datasetLines returns the lines about datasets and their warnings.
func datasetLines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "dataset ") || strings.HasPrefix(line, "warning: ") {
			out = append(out, line)
		}
	}
	return out
}

// spec: stage-114, stage-156, stage-157, stage-159, stage-169
func TestStageSaysHowDatasetsReadTheTable(t *testing.T) {
	l := stagedLake(t)
	const alone = "dataset alone: can be read; the table is its training table"
	stage := func(rows string, args ...string) ran {
		return run(t, append(append(csvStage(t, l, "h", rows), "--config", l.config), args...)...)
	}
	got := stage(rowsOf("f", 50, 250), "--key", "id", "--buckets", "4")
	require.Zero(t, got.code, got.stderr)
	lines := datasetLines(got.stdout)
	require.Len(t, lines, 5)
	require.Equal(t, []string{
		"dataset clicks: 75% of 200 sampled rows match (h)", "dataset semi: 50% of 100 sampled rows match (h)",
		"dataset tried: reads trial, and not branch main (h)", alone,
	}, lines[:4])
	require.Contains(t, lines[4], "dataset broken: cannot be read, and could not be read before the change (h): ")
	require.Contains(t, got.stdout, "\nto take it back: ")

	got = stage(rowsOf("f", 0, 50), "--branch", "trial")
	require.Zero(t, got.code, got.stderr)
	const branch = ", at branch trial instead of main"
	require.Equal(t, []string{
		"dataset clicks: 100% of 200 sampled rows match (h" + branch + ")", "dataset semi: 100% of 100 sampled rows match (h" + branch + ")",
		"dataset tried: 100% of 200 sampled rows match (h)", "dataset alone: can be read" + branch + "; the table is its training table",
	}, datasetLines(got.stdout)[:4])

	got = stage(rowsOf("f", 0, 1), "--json")
	require.Zero(t, got.code, got.stderr)
	var out stagedResult
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Readers, 5)
	require.Equal(t, "clicks h 99 79", fmt.Sprint(out.Readers[0].Dataset, " ", out.Readers[0].Entry, " ", out.Readers[0].Rows, " ", out.Readers[0].Matched))
	require.True(t, out.Readers[4].Failure.Before)
	require.Equal(t, "invalid", out.Readers[4].Failure.Kind)

	again := stage(rowsOf("f", 0, 1))
	require.Contains(t, again.stdout, "has the rows already")
	require.Contains(t, again.stdout, "\nat that snapshot, which later changes may have replaced:\ndataset clicks: ")
	require.Equal(t, "dataset clicks: 79.8% of 99 sampled rows match (h)", datasetLines(again.stdout)[0])
	require.NotContains(t, stage(rowsOf("f", 900, 901), "--dry-run").stdout, "dataset ")
	require.NotContains(t, stage(rowsOf("f", 900, 901), "--no-check", "--json").stdout, "readers")

	other := run(t, append(csvStage(t, l, "other", rowsOf("f", 0, 1)), "--key", "id", "--buckets", "4", "--config", l.config)...)
	require.Zero(t, other.code, other.stderr)
	require.Contains(t, other.stdout, "no dataset reads table features.other\n")
	require.NotContains(t, other.stdout, "keys not checked")
	other = run(t, append(csvStage(t, l, "other", rowsOf("f", 0, 2)), "--config", l.config)...)
	require.Equal(t, exitFailure, other.code)
	require.Contains(t, other.stderr, "1 key of the rows is in table features.other already")

	for i, flags := range [][]string{{"--key", "id", "--buckets", "4", "--allow-duplicates"}, nil} {
		got = run(t, slices.Concat(csvStage(t, l, "repeated", rowsOf("f", 0, 1+i)), flags, []string{"--config", l.config})...)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, i > 0, strings.Contains(got.stdout, "\nkeys not checked: no dataset reads the table, "))
	}
}

// stagedResult is the part of a result that tests read.
type stagedResult = stage.WriteResult

// Keys without any match are a warning, unless the entry allows them.
//
// spec: stage-158
func TestStagedKeysThatMatchNothing(t *testing.T) {
	l := stagedLake(t)
	got := run(t, append(csvStage(t, l, "h", rowsOf("f", 500, 600)), "--key", "id", "--buckets", "4", "--config", l.config)...)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, []string{
		"dataset clicks: 0% of 200 sampled rows match (h)",
		"warning: no sampled row matches; penstock verify clicks compares the keys of both tables",
	}, datasetLines(got.stdout)[:2])
}

// shellWords returns the words of a command whose only quotes are single quotes.
func shellWords(command string) (words []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// A warning about the rows of a branch names the branch, and its command reads the branch, whatever the name of the entry. The printed
// undo removes the branch, and main stays.
//
// spec: stage-190, stage-44
func TestStagedKeysOfABranchThatDoNotMatch(t *testing.T) {
	l := newWrittenLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: "it's h", table: features.h, min_match: 0.9}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("f", 0, 50)})
	before := l.change(t, "log", "features.h")
	got := run(t, append(csvStage(t, l.lake, "h", rowsOf("f", 50, 100)), "--branch", "trial", "--config", l.config)...)
	require.Zero(t, got.code, got.stderr)
	lines := datasetLines(got.stdout)
	require.Equal(t, "dataset clicks: 50% of 200 sampled rows match (it's h, at branch trial instead of main)", lines[0])
	command, rest, _ := strings.Cut(strings.TrimPrefix(lines[1], "warning: less than min_match, which is 90%; penstock "), " compares")
	require.Equal(t, " the keys of both tables", rest)
	require.Contains(t, run(t, append(shellWords(command), "--config", l.config)...).stdout, "matches: 100 of 200 training rows (50%)", command)
	require.Contains(t, run(t, "verify", "clicks", "--config", l.config).stdout, "matches: 50 of 200 training rows (25%)")

	_, undo, _ := strings.Cut(got.stdout, "\nto take it back: penstock ")
	undo, _, _ = strings.Cut(undo, "\n")
	require.Contains(t, undo, "--branch trial --from none")
	require.Zero(t, run(t, strings.Fields(undo)...).code, undo)
	require.Equal(t, before, l.change(t, "log", "features.h"))
	require.Contains(t, run(t, "log", "features.h", "--branch", "trial", "--config", l.config).stderr, `no branch or tag "trial"`)
}

// While several tables of a dataset move to a branch, the match rate of each is measured, although the dataset cannot be read yet.
//
// spec: stage-191
func TestEntriesAreMeasuredBeforeTheirDatasetCanBeRead(t *testing.T) {
	l := newWrittenLake(t, `
  candidate:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, ref: trial}, {name: g, table: features.g, ref: trial}]
  named:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, columns: [none]}, {name: g, table: features.g, ref: trial}]
`, map[string]string{"rows": rowsOf("label", 0, 200), "h": rowsOf("h", 0, 1), "g": rowsOf("g", 0, 1)})
	stage := func(table, rows string, args ...string) ran {
		return run(t, append(append(csvStage(t, l.lake, table, rows), "--config", l.config), args...)...)
	}
	got := stage("h", rowsOf("h", 1, 100), "--branch", "trial")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "\ndataset candidate: 50% of 200 sampled rows match (h)\n"+
		"  the dataset cannot be read, and could not be read before the change: ")
	require.Contains(t, got.stdout, `table features.g has no branch or tag "trial"`)
	require.Contains(t, got.stdout, "\ndataset named: cannot be read, and could not be read before the change (h, at branch trial instead of main): ")

	got = stage("h", "id,h\n150,1\n150,2\n", "--branch", "trial", "--allow-duplicates", "--json")
	var out stagedResult
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.True(t, out.Readers[0].Broken(), "the rows break the entry: %s", got.stdout)
	require.Equal(t, exitBroken, got.code)
	require.Zero(t, run(t, "undo", "features.h", "--branch", "trial", "--from", strconv.FormatInt(out.Parent, 10), "--to", strconv.FormatInt(out.Snapshot, 10), "--config", l.config).code)

	got = stage("g", rowsOf("g", 1, 50), "--branch", "trial")
	require.Equal(t, "dataset candidate: 25% of 200 sampled rows match (g)", datasetLines(got.stdout)[0])
	require.Equal(t, 1, strings.Count(got.stdout, "the dataset cannot be read"), "the other dataset: %s", got.stdout)
	got = stage("h", rowsOf("h", 300, 301), "--branch", "more")
	require.Contains(t, got.stdout, "dataset candidate: reads trial, and not branch more (h)\n")
}

// A stage after which a dataset can no longer be read has committed its rows. The exit code and the
// error say so, and how to take the rows back.
//
// spec: stage-160
func TestStageThatBreaksADataset(t *testing.T) {
	l := stagedLake(t)
	stage := func(rows string, args ...string) ran {
		return run(t, append(append(csvStage(t, l, "h", rows), "--config", l.config), args...)...)
	}
	require.Zero(t, stage(rowsOf("f", 0, 200), "--key", "id", "--buckets", "4").code)
	for range 2 { // a repeated command writes nothing, and fails in the same way
		got := stage(rowsOf("f", 7, 9), "--allow-duplicates")
		require.Equal(t, exitBroken, got.code, got.stdout)
		require.Contains(t, datasetLines(got.stdout)[0], "dataset clicks: can no longer be read (h): ")
		require.Contains(t, got.stderr, "the rows are committed in snapshot ")
		require.Contains(t, got.stderr, "dataset clicks can no longer be read: ")
		require.Contains(t, got.stderr, "take the rows back: penstock undo features.h --from ")
		require.Equal(t, 1, strings.Count(got.stderr, "otherwise set `duplicates: first`"), "the remedy is there once: %s", got.stderr)
		require.NotContains(t, got.stdout, "otherwise set `duplicates: first`")
	}
	require.NotZero(t, run(t, "cat", "clicks", "--limit", "0", "--config", l.config).code)
	require.Zero(t, run(t, "undo", "features.h", "--config", l.config).code)
	require.Zero(t, run(t, "cat", "clicks", "--limit", "0", "--config", l.config).code)
}

// Repeated keys break a dataset that takes one row of each key, also if no sampled row has them.
//
// spec: stage-170
func TestRepeatedKeysBreakADataset(t *testing.T) {
	l := stagedLake(t)
	require.Zero(t, run(t, append(csvStage(t, l, "h", rowsOf("f", 0, 200)), "--key", "id", "--buckets", "4", "--config", l.config)...).code)
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	token := issued(t, tokens, "writer")
	server := start(t, "--config", l.config, "--tokens", tokens, "--policy", policyFile(t, `
rules:
- {subjects: [writer], read: [clicks], write: ["features.*"], allow: [stage]}
`))
	const broken = "dataset clicks: can no longer be read (h): "
	for i, source := range [][]string{{"--config", l.config}, {"--uri", server.uri(), "--token-file", token}} {
		stage := func(rows string, args ...string) ran {
			return run(t, slices.Concat(csvStage(t, l, "h", rows), []string{"--allow-duplicates"}, args, source)...)
		}
		id := 500 + 100*i // no training row has such a key
		got := stage(rowsOf("f", id, id+2))
		require.Zero(t, got.code, got.stderr)
		got = stage("id,f\n" + fmt.Sprintf("%d,1\n%d,2\n", id+10, id+10))
		require.Equal(t, exitBroken, got.code, got.stdout)
		require.Contains(t, datasetLines(got.stdout)[0], broken+fmt.Sprintf("1 key has several of the rows, and with duplicates: error, a stream ends at a training row with such a key: id = %d", id+10))
		require.Contains(t, got.stderr, "set duplicates: last and order_by in the dataset's entry; or take the rows back: penstock undo")
		got = stage(rowsOf("f", id+1, id+4))
		require.Equal(t, exitBroken, got.code, got.stdout)
		require.Contains(t, datasetLines(got.stdout)[0], broken+"1 key of the rows is in table features.h already, and")
		require.Zero(t, stage(rowsOf("f", id+1, id+5), "--no-check").code)
		require.Zero(t, stage(rowsOf("f", id+1, id+6), "--dry-run").code)
	}
}

// A server checks only datasets that the client may read, and names no others.
//
// spec: stage-161
func TestServersCheckDatasetsThatTheClientMayRead(t *testing.T) {
	l := stagedLake(t)
	got := run(t, append(csvStage(t, l, "h", rowsOf("f", 0, 100)), "--key", "id", "--buckets", "4", "--no-check", "--config", l.config)...)
	require.Zero(t, got.code, got.stderr)
	tokens := filepath.Join(t.TempDir(), "server.tokens")
	some, none, limited := issued(t, tokens, "some"), issued(t, tokens, "none"), issued(t, tokens, "limited")
	server := start(t, "--config", l.config, "--tokens", tokens, "--policy", policyFile(t, `
rules:
- {subjects: [some], read: [clicks], write: ["features.*"], allow: [stage]}
- {subjects: [none], write: ["features.*"], allow: [stage]}
- subjects: [limited]
  read: [semi, broken]
  write: ["features.*"]
  allow: [stage]
  tables: {features.rows: {filter: "id < 10"}}
`))
	stage := func(token string, id int) ran {
		return run(t, append(csvStage(t, l, "h", rowsOf("f", id, id+1)), "--uri", server.uri(), "--token-file", token)...)
	}
	got = stage(some, 100)
	require.Zero(t, got.code, got.stderr)
	// The rows with ids below 101 match, of those in the bucket of id 100.
	require.Equal(t, []string{"dataset clicks: 44.44% of 99 sampled rows match (h)"}, datasetLines(got.stdout))

	got = stage(none, 101)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "no dataset that this client may read reads table features.h\n")
	for _, name := range []string{"clicks", "semi", "tried", "alone", "broken"} {
		require.NotContains(t, got.stdout, name)
	}

	got = stage(limited, 102)
	require.Zero(t, got.code, got.stderr)
	lines := datasetLines(got.stdout)
	require.Len(t, lines, 2)
	require.Equal(t, "dataset semi: 100% of 4 sampled rows match (h)", lines[0])
	require.Contains(t, lines[1], "dataset broken: cannot be read, and could not be read before the change (h): ")
	require.Contains(t, lines[1], "the details are withheld")
}

// spec: stage-163
func TestPromotedEntriesAreNotMeasured(t *testing.T) {
	l := stagedLake(t)
	stage := func(rows string) ran {
		return run(t, append(csvStage(t, l, "h", rows), "--key", "id", "--buckets", "4", "--config", l.config)...)
	}
	require.Zero(t, stage(rowsOf("f", 0, 200)).code)
	got := run(t, "promote", "clicks", "h", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	got = stage(rowsOf("f", 200, 201))
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, "dataset clicks: reads promoted columns of the training table, and not the staged rows (h)", datasetLines(got.stdout)[0])
	require.Equal(t, "dataset semi: 100% of 57 sampled rows match (h)", datasetLines(got.stdout)[1])
}

// A sample has rows of four splits, from all of their length. Each training row counts once, and rows
// with the same key are an error only if the entry does not allow them.
//
// spec: stage-157
func TestSamplesAreBounded(t *testing.T) {
	l := emptyLake(t, `
  every:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, duplicates: all}]
`)
	const rows, most = 30_000, 4 * 4096
	got := run(t, append(csvStage(t, l, "rows", rowsOf("label", 0, rows)), "--key", "id", "--buckets", "6", "--no-check", "--config", l.config)...)
	require.Zero(t, got.code, got.stderr)
	for range 2 { // the second time, each key has two rows
		got = run(t, append(csvStage(t, l, "h", rowsOf("f", 0, rows/2)), "--key", "id", "--buckets", "3", "--json", "--again", "--allow-duplicates", "--config", l.config)...)
		require.Zero(t, got.code, got.stderr)
		var out stagedResult
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		one := out.Readers[0]
		require.LessOrEqual(t, one.Rows, int64(most))
		require.Greater(t, one.Rows, int64(most*9/10))
		require.InDelta(t, 0.5, float64(one.Matched)/float64(one.Rows), 0.05)
	}
}

// The sample has the training rows that the staged files can match, also if these are not the newest. A stage whose files no training
// row can match says so.
//
// spec: stage-157, stage-195
func TestSamplesShowTheStagedDays(t *testing.T) {
	l := emptyLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h, columns: [], matched_as: found, align: {training: day, rule: same}}]
`)
	day := func(day, from, to int) string {
		b := strings.Builder{}
		for id := from; id < to; id++ {
			fmt.Fprintf(&b, "%d,%d\n", id, day)
		}
		return b.String()
	}
	stage := func(table, rows string, args ...string) []string {
		got := run(t, append(append(csvStage(t, l, table, "id,day\n"+rows), "--key", "id", "--buckets", "1", "--partition", "day", "--config", l.config), args...)...)
		require.Zero(t, got.code, got.stderr)
		return datasetLines(got.stdout)
	}
	for n := range 8 {
		stage("rows", day(n, 100*n, 100*n+100), "--no-check")
	}
	stage("h", day(7, 700, 800), "--no-check")
	require.Equal(t, []string{"dataset clicks: 25% of 100 sampled rows match (h)"}, stage("h", day(2, 200, 225)))
	require.Equal(t, []string{"dataset clicks: 75% of 200 sampled rows match (h)"}, stage("h", day(3, 300, 400)+day(2, 225, 250)))
	got := stage("h", day(9, 900, 910))
	require.Contains(t, got[1], "warning: no training row can match the staged files, so the sample shows other rows; penstock verify clicks")
}
