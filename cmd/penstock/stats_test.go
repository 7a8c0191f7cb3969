package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// stats describes a table as text and as JSON, at ids and names of snapshots.
//
// spec: stats-5, stats-6, stats-8
func TestStatsDescribesATable(t *testing.T) {
	l, _ := stagedHistory(t)
	config := []string{"--config", l.config}
	stats := func(args ...string) ran {
		return run(t, append(append([]string{"stats", "features.history"}, args...), config...)...)
	}
	snapshot := loggedBy(t, config...).Snapshots[0].Snapshot
	got := stats()
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "table features.history  snapshot "+itoa(snapshot)+"  ")
	require.Regexp(t, `(?m)^req_id +int64 +2 +`, got.stdout)
	require.NotContains(t, got.stdout, "sample", "all rows are in it")
	got = stats(itoa(snapshot), "--columns", "country", "--json", "--no-values")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, "CH")
	var out struct {
		Snapshot string
		Rows     int
		Columns  []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Equal(t, itoa(snapshot), out.Snapshot)
	require.Equal(t, 2, out.Rows)
	require.Len(t, out.Columns, 1)
	require.NotContains(t, out.Columns[0], "min")
	require.Contains(t, stats("--columns", "contry").stderr, "country")
	for _, args := range [][]string{{"--uri", "grpc://127.0.0.1:1"}, {"a", "b"}} {
		require.Equal(t, exitUsage, stats(args...).code)
	}
	require.Contains(t, stats("--uri", "grpc://127.0.0.1:1").stderr, "--uri is not supported by penstock stats")
	require.Contains(t, stats("mian").stderr, `"mian"`)
	require.Equal(t, []string{"main"}, completed(t, append(append([]string{"stats"}, config...), "features.history", "m")...))
}
