package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that moved to another partition is not restored beside itself, unless the call allows it.
// Whole tables, and partitions whose keys are nowhere else, are restored.
//
// spec: compact-27
func TestRestoredPartitionsDoNotRepeatKeys(t *testing.T) {
	l := emptyLake(t, `
  clicks:
    training: {table: features.rows}
    key: [id]
    staging: [{name: h, table: features.h}]
`)
	stage := func(table, schema, rows string, args ...string) {
		got := run(t, append([]string{"stage", "features." + table, l.file(t, "new.csv", rows), "--schema", schema, "--config", l.config}, args...)...)
		require.Zero(t, got.code, got.stderr)
	}
	snapshot := func() string {
		var log struct {
			Snapshots []struct{ Snapshot json.Number }
		}
		require.NoError(t, json.Unmarshal([]byte(run(t, "log", "features.h", "--json", "--config", l.config).stdout), &log))
		return string(log.Snapshots[0].Snapshot)
	}
	restore := func(args ...string) ran {
		return run(t, append([]string{"restore", "features.h", "--config", l.config, "--snapshot"}, args...)...)
	}
	read := func() ran { return run(t, "cat", "clicks", "--config", l.config, "--format", "jsonl", "--limit", "0") }
	const typed = "id: long, day: date"
	stage("rows", "id: long", "id\n1\n2\n", "--key", "id", "--buckets", "2")
	stage("h", typed, "id,day\n1,2026-11-01\n2,2026-11-01\n", "--key", "id", "--buckets", "2", "--partition", "day")
	before := snapshot()
	stage("h", typed, "id,day\n2,2026-11-01\n1,2026-11-02\n", "--mode", "replace")

	for _, args := range [][]string{{before, "--partition", "day=2026-11-01"}, {before, "--partition", "day=2026-11-01", "--dry-run"}} {
		got := restore(args...)
		require.Equal(t, exitFailure, got.code, args)
		require.Contains(t, got.stderr, "1 key of the rows is in table features.h already, and dataset clicks needs one row of each key: id = 1")
		require.Contains(t, got.stderr, "restore the whole table")
	}
	require.Zero(t, read().code)
	require.Zero(t, restore(before).code)
	require.Equal(t, 2, strings.Count(read().stdout, "\n"))
	stage("h", typed, "id,day\n3,2026-11-02\n")
	stage("h", typed, "id,day\n2,2026-11-01\n", "--mode", "replace")
	got := restore(before, "--partition", "day=2026-11-01")
	require.Zero(t, got.code, got.stderr)

	stage("h", typed, "id,day\n2,2026-11-01\n", "--mode", "replace")
	stage("h", typed, "id,day\n1,2026-11-02\n")
	got = restore(before, "--partition", "day=2026-11-01", "--allow-duplicates")
	require.Equal(t, exitBroken, got.code, got.stderr)
	require.Contains(t, got.stderr, "the rows are restored in snapshot ")
	require.Contains(t, got.stderr, "dataset clicks can no longer be read: ")
	require.Contains(t, got.stderr, "take it back: penstock undo features.h --from ")
	require.Contains(t, read().stderr, "several rows of h have the key")
}
