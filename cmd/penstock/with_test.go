package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommandsAddEntries checks that --with adds staging entries to those of the dataset.
//
// spec: resolve-91
func TestCommandsAddEntries(t *testing.T) {
	l := readLake(t)
	const entry = `{"table": "features.history", "key": {"request_id": "req_id"}, "name": "again", "prefix": "again_", "columns": ["country"]}`
	got := run(t, "cat", "home", "--config", l.config, "--with", entry, "--format", "jsonl", "--columns", "country,again_country")
	require.Zero(t, got.code, got.stderr)
	seen := 0
	for line := range strings.Lines(got.stdout) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), ",")
		require.Equal(t, strings.TrimPrefix(before, `{"country":`), strings.TrimSuffix(strings.TrimPrefix(after, `"again_country":`), "}"))
		seen++
	}
	require.Equal(t, 7, seen)
	require.Contains(t, got.stderr, "again")

	explained := run(t, "explain", "home", "--config", l.config, "--with", entry, "--with", strings.ReplaceAll(entry, "again", "more"))
	require.Zero(t, explained.code, explained.stderr)
	require.Contains(t, explained.stdout, "again")
	require.Contains(t, explained.stdout, "more")
	require.Contains(t, explained.stdout, " for its columns\n", "the sizes of columns are known")

	named := run(t, "cat", "home", "--config", l.config, "--with", `{"table": "features.history", "key": {"request_id": "req_id"}, "prefix": "x_"}`)
	require.Equal(t, exitFailure, named.code)
	require.Contains(t, named.stderr, `with[0].name: dataset home already has an entry "history", which differs in `)
	broken := run(t, "cat", "home", "--config", l.config, "--with", "{table: features.history}")
	require.Contains(t, broken.stderr, "--with")
	require.Contains(t, broken.stderr, "is not JSON")
	forgotten := run(t, "cat", "home", "--config", l.config, "--with", "--limit", "1")
	require.NotZero(t, forgotten.code)
	require.Zero(t, run(t, "verify", "home", "--config", l.config, "--with", entry).code)
}
