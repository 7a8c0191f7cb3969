package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
)

// spec: compact-1, compact-9, compact-10
func TestTablesAreCompacted(t *testing.T) {
	l := stagingLake(t)
	for i := range 5 {
		file := l.parquetFile(t, fmt.Sprintf("%d.parquet", i), fmt.Sprintf(`[{"req_id": 1, "country": "C%d"}, {"req_id": %d, "country": "D"}]`, i, 10+i))
		got := run(t, "stage", "features.history", file, "--key", "req_id", "--buckets", "1", "--config", l.config)
		require.Zero(t, got.code, got.stderr)
	}
	rows := run(t, "cat", "history", "--format", "csv", "--config", l.config).stdout
	require.Equal(t, 11, strings.Count(rows, "\n"), rows)
	dry := run(t, "compact", "features.history", "--dry-run", "--config", l.config)
	require.Zero(t, dry.code, dry.stderr)
	require.Contains(t, dry.stdout, "to rewrite: files 5, ")
	require.Contains(t, dry.stdout, ", rows 10\nnew files: about 1\n")
	got := run(t, "compact", "features.history", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "after 1 commit\nrewritten: files 5, ")
	require.Contains(t, got.stdout, "deleted rows left out: 0\n")
	after := run(t, "cat", "history", "--format", "csv", "--config", l.config).stdout
	require.ElementsMatch(t, strings.Split(rows, "\n"), strings.Split(after, "\n"))
	got = run(t, "compact", "features.history", "--json", "--config", l.config)
	require.Contains(t, got.stdout, `"files": 0`)
	got = run(t, "compact", "features.history", "--config", l.config)
	require.Equal(t, "no file of table features.history needs to be rewritten\n", got.stdout)
}

// spec: compact-6, compact-7
func TestOrderThatADatasetNeedsIsKept(t *testing.T) {
	l := stagingLake(t)
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: ml.impressions}
    staging:
    - {table: features.history, key: [req_id], duplicates: last}
`)
	got := run(t, "compact", "features.history", "--any-order", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "dataset home takes the first or last of several rows of table features.history")
	got = run(t, "compact", "features.other", "--any-order", "--config", l.config)
	require.Contains(t, got.stderr, "features.other does not exist")
}

// spec: compact-20, compact-24
func TestTablesAreRestored(t *testing.T) {
	l := stagingLake(t)
	first := l.parquetFile(t, "first.parquet", `[{"req_id": 1, "country": "CH"}]`)
	got := run(t, "stage", "features.history", first, "--key", "req_id", "--buckets", "1", "--json", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	snapshot := regexp.MustCompile(`"snapshot": "(\d+)"`).FindStringSubmatch(got.stdout)[1]
	rows := run(t, "cat", "history", "--format", "csv", "--config", l.config).stdout
	bad := l.parquetFile(t, "bad.parquet", `[{"req_id": 1, "country": "??"}, {"req_id": 2, "country": "??"}]`)
	require.Zero(t, run(t, "stage", "features.history", bad, "--config", l.config).code)
	require.Zero(t, run(t, "compact", "features.history", "--min-files", "2", "--config", l.config).code)

	dry := run(t, "restore", "features.history", "--snapshot", snapshot, "--dry-run", "--config", l.config)
	require.Contains(t, dry.stdout, "files copied 1, rewritten without deleted rows 0, unchanged 0\nrows 1, ")
	token := tablecommit.NewToken(time.Now(), "restore")
	got = run(t, "restore", "features.history", "--snapshot", snapshot, "--token", token, "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "files replaced: 1\ntoken "+token)
	require.Equal(t, rows, run(t, "cat", "history", "--format", "csv", "--config", l.config).stdout)
	got = run(t, "restore", "features.history", "--snapshot", snapshot, "--token", token, "--config", l.config)
	require.Contains(t, got.stdout, "has the rows already: nothing was written")
	got = run(t, "restore", "features.history", "--snapshot", "7", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "no longer exists")
}

func TestUsageOfCompact(t *testing.T) {
	for want, args := range map[string][]string{
		"needs a table":             {"compact"},
		"is not a number above 1":   {"compact", "features.history", "--min-files", "1"},
		"is not a size of at least": {"compact", "features.history", "--file-size", "10"},
		"give --config FILE":        {"compact", "features.history"},
		"is not the id":             {"restore", "features.history", "--snapshot", "x"},
	} {
		got := run(t, args...)
		require.Equal(t, exitUsage, got.code, want)
		require.Contains(t, got.stderr, want)
	}
}
