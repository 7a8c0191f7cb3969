package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/audit"
)

// A server describes tables and datasets as the command does in its own process: the same text, JSON, page and errors.
//
// spec: stats-8
func TestStatsThroughAServer(t *testing.T) {
	l, _ := stagedHistory(t)
	server := start(t, "--config", l.config, "--memory", "256MiB")
	folder := t.TempDir()
	for _, args := range [][]string{
		{"features.history"},
		{"features.history", "--json"},
		{"features.history", "candidate", "--against", "main", "--json"},
		{"features.history", "--columns", "country", "--no-values", "--exact"},
		{"features.history", "--label", "req_id", "--json"},
		{"history"},
		{"history", "--json"},
		{"history", "--against", "history", "--label", "req_id", "--json"},
		{"history", "main"},
		{"history", "--keep"},
		{"history", "--columns", "contry"},
		{"histori"},
		{"features.histori"},
		{"features.history", "mian"},
		{"features.history", "--columns", "contry"},
		{"features.history", "--label", "contry"},
		{"features.history", "--against", "1999-01-01"},
	} {
		page := map[string]string{}
		stats := func(name string, from ...string) ran {
			path := filepath.Join(folder, name)
			got := run(t, append(append([]string{"stats", "--html", path}, args...), from...)...)
			text, err := os.ReadFile(path)
			require.Equal(t, got.code == exitUsage || got.code == exitFailure || got.code == exitUnverified, err != nil, "%v: %s", args, got.stderr)
			_ = os.Remove(path)
			page[name] = string(text)
			return got
		}
		local, remote := stats("local", "--config", l.config), stats("remote", "--uri", server.uri())
		require.Equal(t, local, remote, "%v", args)
		require.Equal(t, page["local"], page["remote"], "%v", args)
	}
	got := run(t, "stats", "features.history", "--keep", "--uri", server.uri())
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "kept with the table in ")
}

// Under a policy, clients get the statistics of rows and columns that they may read.
//
// spec: stats-70, stats-71, stats-72, stats-73, stats-74
func TestStatsShowWhatThePolicyAllows(t *testing.T) {
	l, _ := stagedHistory(t)
	l.config = l.file(t, "shown.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  history: {training: {table: features.history}, key: [req_id]}
  joined: {training: {table: features.secret}, key: [req_id], staging: [{table: features.history, prefix: h_}]}
  inner: {training: {table: features.history}, key: [req_id], staging: [{table: features.secret, join: inner, columns: []}]}
  filtered: {training: {table: features.history, filter: "country = 'CH'"}, key: [req_id]}
  narrow: {training: {table: features.secret}, key: [req_id], staging: [{table: features.history, columns: []}]}
  tried: {training: {table: features.history, ref: candidate}, key: [req_id]}
`)
	a := l.parquetFile(t, "b.parquet", `[{"req_id": 1, "country": "FR"}, {"req_id": 7, "country": "FR"}]`)
	require.Zero(t, run(t, "stage", "features.secret", a, "--key", "req_id", "--buckets", "1", "--config", l.config).code)
	tokens, log := filepath.Join(t.TempDir(), "server.tokens"), filepath.Join(t.TempDir(), "audit.log")
	token := map[string]string{}
	for _, who := range []string{"writer", "reader", "explainer", "keeper", "limited", "partial", "sender", "joined", "inner", "filtered", "narrow", "tried"} {
		token[who] = issued(t, tokens, who)
	}
	server := changing{audit: log, child: start(t, "--config", l.config, "--memory", "256MiB", "--tokens", tokens, "--audit-log", log, "--policy", policyFile(t, `
rules:
- {subjects: [writer], write: ["features.history"], allow: [stage, publish]}
- {subjects: [reader], read: [history]}
- {subjects: [explainer], read: [history], allow: [explain]}
- {subjects: [keeper], read: [history], write: ["features.history"], allow: [stage]}
- {subjects: [limited], read: [history, joined], inline: ["features.history"], allow: [explain, stage], write: ["features.history"], tables: {features.history: {withheld: [country]}}}
- {subjects: [partial], read: [history, joined], tables: {features.history: {filter: "country = 'CH'"}}}
- {subjects: [sender], inline: ["features.history"], allow: [explain]}
- {subjects: [joined], read: [joined]}
- {subjects: [inner], read: [inner]}
- {subjects: [filtered], read: [filtered]}
- {subjects: [narrow], read: [narrow]}
- {subjects: [tried], read: [tried]}
`))}
	call := func(who string, args ...string) ran {
		return run(t, append(append([]string{"stats"}, args...), "--uri", server.uri(), "--token-file", token[who])...)
	}
	type described struct {
		Files, Rows *int
		Columns     []struct{ Name string }
		Entries     []struct {
			Matches struct{ Matched int }
			Keys    *struct{ Keys int }
			Columns []struct{ Name string }
		}
	}
	of := func(who string, args ...string) (out described) {
		got := call(who, append(args, "--json")...)
		require.Zero(t, got.code, "%s: %s", who, got.stderr)
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		return out
	}
	for _, who := range []string{"reader", "explainer", "keeper", "sender", "joined"} {
		require.Len(t, of(who, "features.history").Columns, 2, who)
	}
	for who, want := range map[string]string{
		"writer": "there is no table features.history that this client may read", "partial": "would show rows that this client may not read",
		"inner": "would show rows", "filtered": "would show rows", "narrow": "would show rows", "tried": "would show rows",
	} {
		got := call(who, "features.history")
		require.Equal(t, exitFailure, got.code, who)
		require.Contains(t, got.stderr, want, who)
	}
	var said []string
	for _, table := range []string{"features.secret", "features.nothing"} {
		said = append(said, strings.ReplaceAll(call("reader", table).stderr, table, "TABLE"))
	}
	require.Equal(t, said[0], said[1], "whether or not there is such a table")

	seen := of("limited", "features.history")
	require.Len(t, seen.Columns, 1)
	require.Equal(t, "req_id", seen.Columns[0].Name)
	require.Nil(t, seen.Files, "the size of all columns tells about withheld ones")
	for _, args := range [][]string{{"--columns", "country"}, {"--label", "country"}, {"--columns", "req_id,country"}} {
		got := call("limited", append([]string{"features.history"}, args...)...)
		require.Equal(t, exitFailure, got.code)
		require.Contains(t, got.stderr, `no column "country"`)
		none := call("limited", "features.history", args[0], strings.ReplaceAll(args[1], "country", "nation"))
		require.Equal(t, strings.ReplaceAll(got.stderr, "country", "nation"), none.stderr, "whether or not there is such a column")
	}
	require.Contains(t, call("limited", "features.history", "--keep").stderr, "may not read all columns")
	for _, who := range []string{"reader", "sender"} {
		require.Contains(t, call(who, "features.history", "--keep").stderr, "may not stage table features.history", who)
	}
	require.Zero(t, call("keeper", "features.history", "--keep").code)

	require.Contains(t, call("reader", "features.history", "candidate").stderr, "the snapshots of table features.history would show more of it")
	require.Contains(t, call("reader", "features.history", "--against", "candidate").stderr, "the snapshots of table features.history would show more of it")
	require.Zero(t, call("explainer", "features.history", "candidate", "--against", "main").code)

	whole, part, without := of("joined", "joined"), of("partial", "joined"), of("limited", "joined")
	require.Equal(t, 1, whole.Entries[0].Matches.Matched)
	require.NotNil(t, whole.Entries[0].Keys)
	require.Equal(t, 1, part.Entries[0].Matches.Matched, "the row of CH")
	require.Nil(t, part.Entries[0].Keys)
	require.Nil(t, without.Entries[0].Keys)
	require.Less(t, len(without.Entries[0].Columns), len(whole.Entries[0].Columns))
	require.Zero(t, call("joined", "joined", "--against", "joined").code)
	require.Contains(t, call("reader", "joined").stderr, `"joined"`)
	require.Contains(t, call("reader", "history", "--against", "joined").stderr, `"joined"`)

	events, compared := map[audit.Event]int{}, 0
	for _, line := range server.lines(t) {
		events[line.Event]++
		if line.Event == audit.Stats && len(line.Tables) == 4 {
			require.Equal(t, line.Tables[:2], line.Tables[2:], "the tables of both datasets")
			require.Equal(t, []string{"features.secret", "features.history"}, []string{line.Tables[0].Table, line.Tables[1].Table})
			compared++
		}
		if line.Event == audit.Stats && line.End == "ok" && line.Dataset == "" {
			require.Equal(t, "features.history", line.Tables[0].Table)
			require.Contains(t, []int64{2, 4}, line.Rows, "of main, or of candidate")
		}
	}
	require.Equal(t, 1, events[audit.Keep])
	require.Equal(t, 1, compared)
	require.Positive(t, events[audit.Stats])
	require.Positive(t, events[audit.Refusal])
}

// Calls of a server keep the statistics of files together, and get the same result.
//
// spec: stats-12
func TestStatsOfServersShareKeptStatistics(t *testing.T) {
	l, folder := stagedHistory(t)
	text, err := os.ReadFile(l.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.config, append(text, "server: {cache_dir: "+filepath.Join(t.TempDir(), "cached")+"}\n"...), 0o600))
	server := start(t, "--config", l.config, "--memory", "256MiB")
	want := run(t, "stats", "features.history", "--json", "--uri", server.uri())
	require.Zero(t, want.code, want.stderr)
	require.NoError(t, os.Rename(filepath.Join(folder, "data"), filepath.Join(folder, "away")))
	const calls = 8
	results := make(chan ran, calls)
	for range calls {
		go func() { results <- run(t, "stats", "features.history", "--json", "--uri", server.uri()) }()
	}
	for range calls {
		require.Equal(t, want, <-results, "no call needs the data files")
	}
	require.Contains(t, run(t, "cache", "ls", "--json", "--uri", server.uri()).stdout, `"statistics": {`)
}
