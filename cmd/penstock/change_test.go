package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
)

// changing is a server with a policy, an audit log, and tokens of two clients: a writer that may
// change tables, and a reader.
type changing struct {
	*child
	audit          string // path of the audit log
	writer, reader string // files with tokens
}

// changingServer starts a server of a lake. allow lists the writer's rights.
func changingServer(t *testing.T, l lake, allow string) changing {
	t.Helper()
	tokens, c := filepath.Join(t.TempDir(), "server.tokens"), changing{audit: filepath.Join(t.TempDir(), "audit.log")}
	c.writer, c.reader = issued(t, tokens, "writer"), issued(t, tokens, "reader")
	c.child = start(t, "--config", l.config, "--memory", "256MiB", "--tokens", tokens, "--audit-log", c.audit, "--policy", policyFile(t, `
rules:
- {subjects: [writer], read: ["*"], write: ["*"], allow: [`+allow+`]}
- {subjects: [reader], read: ["*"]}
`))
	return c
}

// call runs a command against the server with a token and with progress as JSON.
func (c changing) call(t *testing.T, token string, args ...string) ran {
	t.Helper()
	return run(t, append(args, "--uri", c.uri(), "--token-file", token, "--progress", "json")...)
}

// lines returns the lines of the audit log so far.
func (c changing) lines(t *testing.T) []audit.Line {
	t.Helper()
	text, err := os.ReadFile(c.audit)
	require.NoError(t, err)
	return audited(t, string(text))
}

// check runs a command first without and then with the right, and returns the progress and the
// audit line of the second run.
func (c changing) check(t *testing.T, event audit.Event, right string, args ...string) ([]progressLine, audit.Line) {
	t.Helper()
	before := len(c.lines(t))
	got := c.call(t, c.reader, args...)
	require.Equal(t, exitFailure, got.code, got.stdout)
	require.Contains(t, got.stderr, "may not ")
	require.Contains(t, got.stderr, "allow: ["+right+"]")
	got = c.call(t, c.writer, args...)
	require.Zero(t, got.code, got.stderr)
	lines := c.lines(t)[before:]
	require.Len(t, lines, 2)
	require.Equal(t, []any{audit.Refusal, "reader", "forbidden"}, []any{lines[0].Event, lines[0].Subject, lines[0].End})
	require.Equal(t, []any{event, "writer", "ok"}, []any{lines[1].Event, lines[1].Subject, lines[1].End})
	require.Equal(t, "features.history", lines[1].Tables[0].Table)
	return progressLines(t, got.stderr), lines[1]
}

// spec: change-1, change-3, change-4, change-5
func TestCommandsMaintainTablesOfAServer(t *testing.T) {
	l, folder := stagedHistory(t)
	a := l.parquetFile(t, "more.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	staged := run(t, "stage", "features.history", a, "--again", "--config", l.config)
	require.Zero(t, staged.code, staged.stderr)
	snapshot := regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(staged.stdout)[1]
	leave(t, folder, "data/penstock-0123456789abcdef-1.parquet")
	age(t, folder, 4)
	server := changingServer(t, l, "stage")

	steps, line := server.check(t, audit.Compact, "stage", "compact", "features.history", "--min-files", "2")
	require.Equal(t, []string{"rewrite", stepDone}, stepsOf(steps))
	require.Equal(t, int64(4), steps[len(steps)-2].RowsRead)
	require.NotZero(t, line.Tables[0].Snapshot)
	steps, line = server.check(t, audit.Restore, "stage", "restore", "features.history", "--snapshot", snapshot, "--token", "20261128T000000.000Z-restored")
	require.Equal(t, []string{"write", stepDone}, stepsOf(steps))
	require.Equal(t, "20261128T000000.000Z-restored", line.Token)
	steps, _ = server.check(t, audit.Orphans, "stage", "orphans", "features.history", "--remove")
	require.Equal(t, []string{"search", "remove", stepDone}, stepsOf(steps))
	require.Equal(t, int64(1), steps[len(steps)-2].Files)
	require.False(t, slices.Contains(filesBelow(t, folder), "data/penstock-0123456789abcdef-1.parquet"))
}

// spec: change-1, change-4, change-5, promote-26
func TestCommandsPromoteColumnsOfAServer(t *testing.T) {
	l := stagingLake(t)
	l.config = l.file(t, "promoted.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: features.history}
    key: [req_id]
    staging:
    - {table: features.origin, name: origin, prefix: origin_}
`)
	for _, table := range []string{"features.history", "features.origin"} {
		file := l.parquetFile(t, table+".parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
		got := run(t, "stage", table, file, "--key", "req_id", "--buckets", "1", "--config", l.config)
		require.Zero(t, got.code, got.stderr)
	}
	server := changingServer(t, l, "promote")
	_, line := server.check(t, audit.Promote, "promote", "promote", "home", "origin", "--dry-run")
	require.Equal(t, "home", line.Dataset)
	steps, _ := server.check(t, audit.Promote, "promote", "promote", "home", "origin")
	require.Equal(t, []string{"rewrite", stepDone}, stepsOf(steps))
	require.Equal(t, "features.history", steps[0].Table)
	require.Equal(t, int64(2), steps[len(steps)-2].RowsWritten)
	rows := run(t, "cat", "--query", `{"dataset": {"training": {"table": "features.history"}}}`, "--config", l.config, "--format", "csv")
	require.Contains(t, rows.stdout, "origin_country")
	demote := []string{"demote", "features.history", "origin_country", "--config", l.config}
	got := run(t, demote...)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "which needs a terminal: add --yes")
	got = runWith(t, process{terminal: terminal{stdin: strings.NewReader("no\n"), answers: true}}, demote...)
	require.Equal(t, exitFailure, got.code)
	require.Equal(t, "penstock: nothing was changed\n", got.stderr)
	require.Contains(t, got.stdout, "to drop from table features.history: columns origin_country\nof entries: origin\nGo on?")
	require.Zero(t, run(t, append(demote, "--dry-run")...).code)
	rows = run(t, "cat", "--query", `{"dataset": {"training": {"table": "features.history"}}}`, "--config", l.config, "--format", "csv")
	require.Contains(t, rows.stdout, "origin_country")
	got = runWith(t, process{terminal: terminal{stdin: strings.NewReader("y\n"), answers: true}}, demote...)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "table features.history has no columns origin_country any more\nof entries: origin\n")
	require.Zero(t, run(t, "promote", "home", "origin", "--config", l.config).code)
	steps, _ = server.check(t, audit.Demote, "promote", "demote", "features.history", "origin_country", "--yes")
	require.Equal(t, []string{"move", stepDone}, stepsOf(steps))
	got = server.call(t, server.writer, "promote", "nothing", "origin")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, `there is no dataset "nothing"`)
}

// spec: change-1, stage-44, stage-70
func TestCommandsPublishOnAServer(t *testing.T) {
	l, _ := stagedHistory(t)
	server := changingServer(t, l, "publish")
	steps, line := server.check(t, audit.Publish, "publish", "publish", "features.history", "candidate")
	require.Equal(t, []string{"move", stepDone}, stepsOf(steps))
	moved := line.Tables[0].Snapshot
	again := server.call(t, server.writer, "publish", "features.history", "candidate")
	require.Contains(t, again.stdout, "is at snapshot "+strconv.FormatInt(moved, 10)+" of branch candidate already")
	steps, _ = server.check(t, audit.Undo, "publish", "undo", "features.history", "--branch", "candidate", "--from", "none", "--to", strconv.FormatInt(moved, 10))
	require.Equal(t, []string{"move", stepDone}, stepsOf(steps))
	gone := server.call(t, server.writer, "publish", "features.history", "candidate")
	require.Equal(t, exitFailure, gone.code)
	require.Contains(t, gone.stderr, "candidate")
}

// Staging files through a server writes the same rows as staging them in process.
//
// spec: change-1, change-10, stage-60
func TestFilesAreStagedToAServer(t *testing.T) {
	l := stagingLake(t)
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, ", {\"req_id\": %d, \"country\": \"%s\"}", i, strings.Repeat("x", 1000))
	}
	many := l.parquetFile(t, "many.parquet", "["+text.String()[2:]+"]")
	server := changingServer(t, l, "stage")
	steps, line := server.check(t, audit.Stage, "stage", "stage", "features.history", many, "--key", "req_id", "--buckets", "2", "--token", "20261128T000000.000Z-many")
	require.Equal(t, []string{"read", "write", "commit", stepDone}, stepsOf(steps))
	require.Equal(t, []any{"20261128T000000.000Z-many", int64(5000)}, []any{line.Token, line.Rows})
	require.Greater(t, line.Batches, int64(1), "a message has at most 2 MiB")
	rows := func() string {
		got := run(t, "cat", "history", "--config", l.config, "--format", "csv", "--limit", "0")
		require.Zero(t, got.code, got.stderr)
		return got.stdout
	}
	remote := rows()
	require.Equal(t, 5001, strings.Count(remote, "\n"))
	again := server.call(t, server.writer, "stage", "features.history", many, "--token", "20261128T000000.000Z-many")
	require.Contains(t, again.stdout, "has the rows already: nothing was written")
	few := l.parquetFile(t, "few.parquet", `[{"req_id": 7, "country": "CH"}]`)
	got := server.call(t, server.writer, "stage", "features.history", few)
	require.Zero(t, got.code, got.stderr)
	require.Regexp(t, `to take it back: penstock undo features.history --from \d+ --to \d+ --uri grpc://`, got.stdout)
	got = server.call(t, server.writer, "stage", "features.history", few, filepath.Join(l.dir, "none.parquet"))
	require.Equal(t, exitFailure, got.code)
	require.Equal(t, 5002, strings.Count(rows(), "\n"), "nothing was written")
}
