package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/loader/catalog/history"
)

// loggedBy returns the log of features.history, read with the given flags.
func loggedBy(t *testing.T, flags ...string) history.Log {
	t.Helper()
	got := run(t, append([]string{"log", "features.history", "--json"}, flags...)...)
	require.Zero(t, got.code, got.stderr)
	var out history.Log
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	return out
}

// The log shows each change by Penstock with the shell command that undoes it.
//
// spec: history-1, history-4, history-6, history-12, history-13
func TestLogTakesChangesBack(t *testing.T) {
	l, _ := stagedHistory(t)
	config := []string{"--config", l.config}
	one := loggedBy(t, config...)
	require.Len(t, one.Snapshots, 1)
	require.Equal(t, []any{"penstock stage", int64(2), "append", []string{"main"}}, []any{one.Snapshots[0].Writer, *one.Snapshots[0].RowsAdded, one.Snapshots[0].Operation, one.Snapshots[0].Branches})
	require.Positive(t, *one.Snapshots[0].BytesAdded)
	a := l.parquetFile(t, "b.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	for _, command := range [][]string{
		{"stage", "features.history", a, "--again"},
		{"compact", "features.history", "--min-files", "2"},
		{"restore", "features.history", "--snapshot", itoa(one.Snapshots[0].Snapshot)},
	} {
		got := run(t, append(command, config...)...)
		require.Zero(t, got.code, got.stderr)
	}
	all := loggedBy(t, config...)
	var writers []string
	for _, e := range all.Snapshots {
		writers = append(writers, e.Writer)
	}
	require.Equal(t, []string{"penstock restore", "penstock compact", "penstock stage", "penstock stage"}, writers)
	require.Equal(t, 3, loggedBy(t, append(config, "--limit", "1")...).Older)
	text := run(t, append([]string{"log", "features.history"}, config...)...).stdout
	lines := regexp.MustCompile(`back: (penstock undo .*)`).FindAllStringSubmatch(text, -1)
	require.Len(t, lines, 4, text)
	got := run(t, strings.Fields(lines[2][1])[1:]...)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, one, loggedBy(t, config...), "the stage and all later changes are taken back")

	restored := run(t, append([]string{"restore", "features.history", "--snapshot", itoa(all.Snapshots[1].Snapshot)}, config...)...)
	require.Zero(t, restored.code, restored.stderr)
	back := regexp.MustCompile(`back: (penstock undo .*)`).FindStringSubmatch(restored.stdout)
	require.NotNil(t, back, restored.stdout)
	require.Zero(t, run(t, strings.Fields(back[1])[1:]...).code)
	require.Equal(t, one, loggedBy(t, config...))
}

// A catalog may have no tables, before the first table is created and after the last one is dropped.
//
// spec: history-28
func TestCatalogsWithoutTablesAreListed(t *testing.T) {
	l := stagingLake(t)
	empty := func() {
		got := run(t, "tables", "--config", l.config, "--json")
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, "[]\n", got.stdout)
		got = run(t, "tables", "--config", l.config)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, "no tables\n", got.stdout)
	}
	empty()
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 7, "country": "CH"}]`)
	require.Zero(t, run(t, "stage", "features.history", a, "--key", "req_id", "--buckets", "1", "--config", l.config).code)
	require.Contains(t, run(t, "tables", "--config", l.config).stdout, "features.history")
	require.Zero(t, run(t, "undo", "features.history", "--yes", "--config", l.config).code)
	empty()
	got := run(t, "init", "sqlite:///"+filepath.Join(l.dir, "catalog.db"), "--output", "-")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "the catalog has no tables\n  → check its properties")

	other := l.file(t, "other.yaml", `catalogs: {prod: {type: sql, uri: "sqlite:///catalog.db"}}`)
	require.Zero(t, run(t, "stage", "features.history", a, "--again", "--key", "req_id", "--buckets", "1", "--config", l.config).code)
	got = run(t, "tables", "--json", "--config", other)
	require.Equal(t, exitFailure, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "the catalog has no tables\n")
	require.Contains(t, got.stderr, `holds no tables of a catalog called "prod"; set name: to one of: default`)
}

// Without snapshot ids, undo takes back the last change, unless it was taken back already or others
// committed since.
//
// spec: history-8, history-9, history-11, history-15, history-16
func TestLastChangeIsTakenBack(t *testing.T) {
	l, _ := stagedHistory(t)
	config := []string{"--config", l.config}
	first := loggedBy(t, config...)
	a := l.parquetFile(t, "b.parquet", `[{"req_id": 7, "country": "CH"}]`)
	require.Zero(t, run(t, append([]string{"stage", "features.history", a}, config...)...).code)
	undo := func(flags ...string) ran {
		return run(t, append(append([]string{"undo", "features.history"}, flags...), config...)...)
	}
	staged := loggedBy(t, config...)
	got := undo("--dry-run")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "dry run: would take back snapshot "+itoa(staged.Snapshots[0].Snapshot))
	command := "penstock undo features.history --from " + itoa(first.Snapshots[0].Snapshot) + " --to " + itoa(staged.Snapshots[0].Snapshot)
	require.Contains(t, got.stdout, command+" --config ")
	require.Equal(t, staged, loggedBy(t, config...))
	got = undo("--json")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, `"writer": "penstock stage"`)
	require.Equal(t, first, loggedBy(t, config...))
	got = undo()
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "the last change of table features.history was taken back already: main was moved back at ")
	require.Contains(t, got.stderr, "--from none --to "+itoa(first.Snapshots[0].Snapshot)+" --yes\n")
	require.Equal(t, first, loggedBy(t, config...))

	got = undo("--from", "7", "--to", itoa(first.Snapshots[0].Snapshot))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, itoa(first.Snapshots[0].Snapshot)+" of "+first.Snapshots[0].Time.Format("2006-01-02T15:04:05Z"))
	got = run(t, append([]string{"restore", "features.history", "--snapshot", "7"}, config...)...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "snapshot 7 of table features.history no longer exists\n")
	require.Contains(t, got.stderr, itoa(first.Snapshots[0].Snapshot)+" of ")
	require.NotContains(t, got.stderr, "plan again")

	c, done := openCatalogOf(t, filepath.Dir(l.config))
	table, err := c.LoadTable(t.Context(), []string{"features", "history"})
	require.NoError(t, err)
	commit(t, table, `[{"req_id": 8, "country": "DE"}]`)
	done()
	foreign := loggedBy(t, config...)
	require.Nil(t, foreign.Snapshots[0].Undo)
	require.Nil(t, foreign.Snapshots[1].Undo, "it would take the commit of others back")
	got = undo()
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "others have committed to branch main")
	require.Contains(t, got.stderr, itoa(foreign.Snapshots[0].Snapshot)+" of ")
	require.Equal(t, foreign, loggedBy(t, config...))
	for _, flags := range [][]string{{"--from", "3"}, {"--to", "3"}, {"--from", "none", "--to", "3", "--dry-run"}} {
		require.Equal(t, exitUsage, undo(flags...).code)
	}
}

// The last change of a branch is taken back by its snapshots, which undo prints. The branch is
// removed if the change created it.
//
// spec: history-6, history-16, history-17, history-29
func TestLastChangeOfABranchIsTakenBack(t *testing.T) {
	l, _ := stagedHistory(t)
	config := []string{"--config", l.config}
	for _, rows := range []string{`[{"req_id": 7, "country": "CH"}]`, `[{"req_id": 8, "country": "DE"}]`} {
		got := run(t, append([]string{"stage", "features.history", l.parquetFile(t, "b.parquet", rows), "--branch", "next"}, config...)...)
		require.Zero(t, got.code, got.stderr)
	}
	staged := loggedBy(t, append(config, "--branch", "next")...)
	require.Len(t, staged.Snapshots, 3)
	require.Len(t, staged.OtherRefs, 1)
	candidate := "\n\nat snapshots that are not listed:\n  branch candidate: snapshot " + itoa(staged.OtherRefs[0].Snapshot) + "\n"
	text := run(t, append([]string{"log", "features.history"}, config...)...).stdout
	require.True(t, strings.HasSuffix(text, candidate+"  branch next: snapshot "+itoa(staged.Snapshots[0].Snapshot)+"\n"), text)
	require.Equal(t, []*history.Undo{
		{Branch: "next", From: staged.Snapshots[1].Snapshot, To: staged.Snapshots[0].Snapshot},
		{Branch: "next", To: staged.Snapshots[0].Snapshot},
		nil,
	}, []*history.Undo{staged.Snapshots[0].Undo, staged.Snapshots[1].Undo, staged.Snapshots[2].Undo})
	command := regexp.MustCompile(`back: (penstock undo .*)`)
	for _, from := range []string{itoa(staged.Snapshots[1].Snapshot), noneBefore} {
		before := loggedBy(t, append(config, "--branch", "next")...)
		got := run(t, append([]string{"undo", "features.history", "--branch", "next"}, config...)...)
		require.Equal(t, exitFailure, got.code)
		found := command.FindStringSubmatch(got.stderr)
		require.NotNil(t, found, got.stderr)
		require.Contains(t, found[1], " --branch next --from "+from+" --to "+itoa(before.Snapshots[0].Snapshot))
		require.Equal(t, before, loggedBy(t, append(config, "--branch", "next")...))
		dry := run(t, append([]string{"undo", "features.history", "--branch", "next", "--dry-run"}, config...)...)
		require.Zero(t, dry.code, dry.stderr)
		require.Contains(t, dry.stdout, found[1])
		got = run(t, strings.Fields(found[1])[1:]...)
		require.Zero(t, got.code, got.stderr)
	}
	got := run(t, append([]string{"log", "features.history", "--branch", "next"}, config...)...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "next")
}

// Under a policy, clients find the tables that they may read or write, and learn nothing about
// others.
//
// spec: history-1, history-2, history-7, history-30, history-31, history-32
func TestTablesAreShownAsThePolicySays(t *testing.T) {
	l, _ := stagedHistory(t)
	l.config = l.file(t, "shown.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  history: {training: {table: features.history}, key: [req_id]}
  other: {training: {table: features.secret}, key: [req_id]}
  filtered: {training: {table: features.history, filter: "country = 'CH'"}, key: [req_id]}
  narrow: {training: {table: features.secret, filter: "country = 'CH'"}, key: [req_id], staging: [{table: features.history, columns: []}]}
`)
	a := l.parquetFile(t, "b.parquet", `[{"req_id": 7, "country": "CH"}]`)
	require.Zero(t, run(t, "stage", "features.secret", a, "--key", "req_id", "--buckets", "1", "--config", l.config).code)
	tokens, log := filepath.Join(t.TempDir(), "server.tokens"), filepath.Join(t.TempDir(), "audit.log")
	token := map[string]string{}
	for _, name := range []string{"writer", "reader", "explainer", "limited", "inline", "verifier", "sender", "filtered", "narrow", "blind"} {
		token[name] = issued(t, tokens, name)
	}
	server := changing{audit: log, child: start(t, "--config", l.config, "--memory", "256MiB", "--tokens", tokens, "--audit-log", log, "--policy", policyFile(t, `
rules:
- {subjects: [writer], write: ["features.history"], allow: [publish]}
- {subjects: [reader], read: [history]}
- {subjects: [explainer], read: [history], allow: [explain]}
- {subjects: [limited], read: [history], allow: [explain], tables: {features.history: {filter: "country = 'CH'"}}}
- {subjects: [inline], inline: ["features.history"], allow: [explain]}
- {subjects: [verifier], read: [history], allow: [explain, verify]}
- {subjects: [sender], inline: ["features.history"], allow: [explain, verify]}
- {subjects: [filtered], read: [filtered], allow: [explain, verify]}
- {subjects: [narrow], read: [narrow], allow: [explain, verify]}
- {subjects: [blind], read: [history], allow: [verify]}
`))}
	call := func(who string, args ...string) ran {
		return run(t, append(args, "--uri", server.uri(), "--token-file", token[who])...)
	}
	for who, whole := range map[string]bool{"writer": true, "reader": false, "explainer": true, "limited": false, "inline": true} {
		got := call(who, "tables", "--json")
		require.Zero(t, got.code, got.stderr)
		var counts []history.Description
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &counts))
		require.Len(t, counts, 1, who)
		require.Equal(t, []any{"features.history", []string{"bucket[2](req_id)"}, !whole}, []any{counts[0].Table, counts[0].Partition, counts[0].Withheld}, who)
		require.Equal(t, whole, counts[0].Rows != nil && *counts[0].Rows == 2, who)
		require.Equal(t, who == "writer" || who == "inline", len(counts[0].Datasets) == 0, who)
		got = call(who, "log", "features.history")
		if whole {
			require.Zero(t, got.code, "%s: %s", who, got.stderr)
			require.Contains(t, got.stdout, "by penstock stage")
			require.Contains(t, got.stdout, " --uri "+server.uri()+" --token-file "+token[who]+"\n", "the command to undo a change calls this server with this token")
		} else {
			require.Contains(t, got.stderr, "would show more of it than this client may read", who)
		}
		var said []string
		for _, table := range []string{"features.secret", "features.nothing"} {
			got = call(who, "log", table)
			require.Equal(t, exitFailure, got.code, who)
			said = append(said, strings.ReplaceAll(got.stderr, table, "TABLE"))
		}
		require.Equal(t, said[0], said[1], "whether or not there is such a table")
		require.NotContains(t, said[0], "features.")
	}
	for who, want := range map[string]string{
		"writer": "may not call verify", "reader": "may not call verify", "explainer": "may not call verify", "limited": "may not call verify",
		"inline": "may not call verify", "verifier": "", "sender": "", "filtered": "may not read", "narrow": "may not read", "blind": "would show more of it",
	} {
		got := call(who, "diff", "features.history")
		if want == "" {
			require.Zero(t, got.code, "%s: %s", who, got.stderr)
			require.Contains(t, got.stdout, "added: 2, such as ", who)
		} else {
			require.Contains(t, got.stderr, want, who)
		}
		require.Equal(t, exitFailure, call(who, "diff", "features.secret").code, who)
	}
	var compared, refused int
	for _, line := range server.lines(t) {
		if line.Event == audit.Diff {
			require.Equal(t, []any{int64(2), "features.history", 1}, []any{line.Rows, line.Tables[0].Table, len(line.Tables)})
			compared++
		}
		if line.Event == audit.Refusal && line.Call == "log" && line.Tables[0].Table == "features.secret" {
			refused++
		}
	}
	require.Equal(t, 5, refused)
	require.Equal(t, 2, compared)
	got := call("writer", "tables", "hr")
	require.Contains(t, got.stderr, "there is no table hr, and no table in a namespace or catalog of that name, that may be read")
	got = call("reader", "tables", "features.secret")
	require.Contains(t, got.stderr, "there is no table features.secret, ")
	for _, name := range []string{"features.history", "default.features.history"} {
		got = call("explainer", "tables", name, "--json")
		require.Zero(t, got.code, got.stderr)
		var one []history.Description
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &one))
		require.Len(t, one, 1)
		require.Equal(t, "features.history", one[0].Table)
	}
	got = run(t, "tables", "features", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "features.secret")
	require.Contains(t, got.stdout, " B ")
	got = call("reader", "undo", "features.history")
	require.Contains(t, got.stderr, "may not call publish")
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
