package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/tablediff"
)

// diff shows what a stage changed, as text and as JSON, by ids and names of snapshots.
//
// spec: history-18, history-20, history-21, history-22, history-23
func TestDiffShowsWhatChanged(t *testing.T) {
	l, _ := stagedHistory(t)
	config := []string{"--config", l.config}
	diff := func(args ...string) ran {
		return run(t, append(append([]string{"diff", "features.history"}, args...), config...)...)
	}
	first := loggedBy(t, config...).Snapshots[0].Snapshot
	got := diff()
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "\nfrom  no snapshot, 0 rows\nto    snapshot "+itoa(first)+"  ")
	require.Contains(t, got.stdout, "keys (req_id) of the files that differ, which have 0 rows in from and 2 in to:\n  added: 2, such as ")

	a := l.parquetFile(t, "b.parquet", `[{"req_id": 77, "country": "CH"}]`)
	staged := run(t, append([]string{"stage", "features.history", a, "--branch", "next"}, config...)...)
	require.Zero(t, staged.code, staged.stderr)
	require.Zero(t, run(t, append([]string{"compact", "features.history", "--branch", "next", "--min-files", "2"}, config...)...).code)
	got = diff("main", "next")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "  added: 1, such as 77\n  gone: 0\n  changed: 0\n  the same: ")
	require.Contains(t, diff(itoa(first), "next").stdout, "  added: 1, such as 77\n")
	got = diff("next", "--json")
	require.Zero(t, got.code, got.stderr)
	var out tablediff.Result
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Equal(t, []string{"77"}, out.Keys.GoneKeys)
	require.Equal(t, first, out.To.Snapshot)

	got = diff("main", "next", "--files")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, "keys")
	got = diff("main", "next", "--key", "country")
	require.Contains(t, got.stdout, "keys (country)")
	for _, args := range [][]string{{"a", "b", "c"}, {"--files", "--key", "req_id"}} {
		require.Equal(t, exitUsage, diff(args...).code)
	}
	server := start(t, append(config, "--memory", "256MiB")...)
	for _, args := range [][]string{nil, {"main", "next"}, {"next", "--json"}, {"main", "next", "--files"}, {"main", "next", "--key", "country", "--json"}, {"none", "main", "--json"}, {"mian"}, {"--key", "no"}} {
		local, remote := diff(args...), run(t, append(append([]string{"diff", "features.history"}, args...), "--uri", server.uri())...)
		require.Equal(t, local, remote, "%v", args)
	}
	require.Contains(t, diff("mian").stderr, `"mian"`)
	require.Equal(t, []string{"candidate", "main", "next"}, completed(t, append(append([]string{"diff"}, config...), "features.history", "")...))
	require.Equal(t, []string{"next"}, completed(t, append(append([]string{"diff"}, config...), "features.history", "main", "n")...))
}
