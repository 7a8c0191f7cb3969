package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A dataset has the values of a promoted entry after rows are staged, compacted and restored without its columns.
//
// spec: promote-20, stage-34, compact-15
func TestValuesOfPromotedEntriesAfterOtherChanges(t *testing.T) {
	l := stagingLake(t)
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: features.history}
    key: [req_id]
    staging:
    - {table: features.origin, name: origin, prefix: origin_, matched_as: known}
`)
	call := func(args ...string) string {
		got := run(t, append(args, "--config", l.config)...)
		require.Zero(t, got.code, "%s: %s", args, got.stderr)
		return got.stdout
	}
	rows := func() []string {
		out := strings.Split(strings.TrimSpace(call("cat", "home", "--format", "csv")), "\n")
		require.Equal(t, "req_id,country,origin_country,known", out[0])
		slices.Sort(out[1:])
		return out[1:]
	}
	snapshotOf := func(out string) string { return regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(out)[1] }
	origin := l.parquetFile(t, "origin.parquet", `[{"req_id": 1, "country": "AT"}, {"req_id": 2, "country": "IT"}, {"req_id": 4, "country": "ES"}]`)
	call("stage", "features.origin", origin, "--key", "req_id", "--buckets", "1")
	first := l.parquetFile(t, "first.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}, {"req_id": 3, "country": "FR"}]`)
	before := snapshotOf(call("stage", "features.history", first, "--key", "req_id", "--buckets", "1"))
	want := rows()
	require.Equal(t, []string{"1,CH,AT,true", "2,DE,IT,true", "3,FR,,false"}, want)
	call("promote", "home", "origin")
	require.Equal(t, want, rows())

	more := append(slices.Clone(want), "4,SE,ES,true", "5,NO,,false")
	for i, row := range []string{`[{"req_id": 4, "country": "SE"}]`, `[{"req_id": 5, "country": "NO"}]`} {
		call("stage", "features.history", l.parquetFile(t, string(rune('a'+i))+".parquet", row))
	}
	require.Equal(t, more, rows())
	call("compact", "features.history", "--min-files", "2", "--any-order")
	require.Equal(t, more, rows())
	call("restore", "features.history", "--snapshot", before)
	require.Equal(t, want, rows())
	call("demote", "features.history", "origin_country", "--yes")
	call("promote", "home", "origin")
	require.Equal(t, want, rows())
}

// Rows that are staged after an overlay was promoted have the overlay's values, or are refused.
//
// spec: promote-20, promote-27, stage-165
func TestRowsStagedAfterAPromotedOverlay(t *testing.T) {
	l := stagingLake(t)
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  home:
    training: {table: features.history}
    key: [req_id]
    staging:
    - {table: features.fix, join: overlay}
`)
	call := func(args ...string) string {
		got := run(t, append(args, "--config", l.config)...)
		require.Zero(t, got.code, "%s: %s", args, got.stderr)
		return got.stdout
	}
	rows := func(query string) []string {
		out := strings.Split(strings.TrimSpace(call("cat", "home", "--query", query, "--format", "csv")), "\n")
		slices.Sort(out[1:])
		return out[1:]
	}
	fix := l.parquetFile(t, "fix.parquet", `[{"req_id": 1, "country": "XX"}, {"req_id": 4, "country": "YY"}]`)
	call("stage", "features.fix", fix, "--key", "req_id", "--buckets", "1")
	first := call("stage", "features.history", l.parquetFile(t, "first.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`), "--key", "req_id", "--buckets", "1")
	require.Equal(t, []string{"1,XX", "2,DE"}, rows("{}"))
	call("promote", "home", "fix")
	require.Equal(t, []string{"1,XX", "2,DE"}, rows("{}"))

	got := run(t, "stage", "features.history", l.parquetFile(t, "second.parquet", `[{"req_id": 3, "country": "FR"}]`), "--config", l.config)
	require.NotZero(t, got.code)
	require.Contains(t, got.stderr, "country__before_promotion")
	call("stage", "features.history", l.file(t, "third.csv", "req_id,country__before_promotion\n3,FR\n"))
	call("stage", "features.history", l.file(t, "fourth.jsonl", `{"req_id": 4, "country__before_promotion": "ES"}`))
	want := []string{"1,XX", "2,DE", "3,FR", "4,YY"}
	for range 2 {
		for _, wire := range []string{"plain", "indexed"} {
			require.Equal(t, want, rows(`{"columns": ["req_id", "country"], "wire": "`+wire+`"}`), wire)
		}
		call("promote", "home", "fix")
	}
	call("demote", "features.history", "country", "--yes")
	require.Equal(t, want, rows("{}"))
	plain := call("cat", "--query", `{"dataset": {"training": {"table": "features.history"}}}`, "--format", "csv")
	require.Contains(t, plain, "3,FR")
	require.Contains(t, plain, "4,ES")
	call("promote", "home", "fix")
	call("restore", "features.history", "--snapshot", regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(first)[1])
	require.Equal(t, []string{"1,XX", "2,DE"}, rows("{}"))
	call("demote", "features.history", "country", "--yes")
	require.Contains(t, call("cat", "--query", `{"dataset": {"training": {"table": "features.history"}}}`, "--format", "csv"), "1,CH")
}
