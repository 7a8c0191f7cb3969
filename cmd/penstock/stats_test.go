package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/loader/statistics"
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
	require.Equal(t, exitUsage, stats("a", "b").code)
	require.Contains(t, stats("mian").stderr, `"mian"`)
	require.Equal(t, []string{"main"}, completed(t, append(append([]string{"stats"}, config...), "features.history", "m")...))
}

// Frequent texts are quoted, since they may have commas.
func TestStatsQuotesFrequentTexts(t *testing.T) {
	l := stagedLake(t)
	rows := new(strings.Builder)
	rows.WriteString("id,s\n")
	for id := range 20 {
		fmt.Fprintf(rows, "%d,\", \"\n", id)
	}
	staged := run(t, "stage", "features.texts", l.file(t, "texts.csv", rows.String()), "--schema", "id: long, s: string", "--key", "id", "--buckets", "1", "--config", l.config)
	require.Zero(t, staged.code, staged.stderr)
	got := run(t, "stats", "features.texts", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, `", " (100%)`)
}

// While a server uses cache_dir, stats keeps the statistics of files there. A second call needs no data file, until they are
// dropped.
//
// spec: stats-11, stats-13, cache-14
func TestStatsKeepsStatisticsOfFiles(t *testing.T) {
	l, folder := stagedHistory(t)
	cached := filepath.Join(t.TempDir(), "cached")
	text, err := os.ReadFile(l.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.config, append(text, "server: {cache_dir: "+cached+"}\n"...), 0o600))
	server := start(t, "--config", l.config)
	stats := func() ran { return run(t, "stats", "features.history", "--json", "--config", l.config) }
	first := stats()
	require.Zero(t, first.code, first.stderr)
	require.Empty(t, first.stderr)
	data, away := filepath.Join(folder, "data"), filepath.Join(folder, "away")
	require.NoError(t, os.Rename(data, away))
	require.Equal(t, first, stats())
	require.Regexp(t, `(?m)^statistics of files: [1-9]\d*, .* of `, run(t, "cache", "ls", "--uri", server.uri()).stdout)
	got := run(t, "cache", "drop", "features.history", "--uri", server.uri())
	require.Zero(t, got.code, got.stderr)
	require.NotZero(t, stats().code)
	require.NoError(t, os.Rename(away, data))
	require.Equal(t, first, stats())
	require.NoError(t, os.Rename(data, away))
	require.Equal(t, first, stats())
	require.Zero(t, run(t, "cache", "drop", "--config", l.config).code)
	require.NotZero(t, stats().code)

	require.NoError(t, os.Rename(away, data))
	require.NoError(t, os.RemoveAll(filepath.Join(cached, "statistics")))
	require.NoError(t, os.WriteFile(filepath.Join(cached, "statistics"), nil, 0o600))
	got = stats()
	require.Equal(t, first.stdout, got.stdout)
	require.Contains(t, got.stderr, "statistics of files are not kept in cache_dir: ")
}

// An HTML page is written besides the printed result, and replaces a file only if the command succeeds.
//
// spec: stats-40
func TestStatsWritesAPage(t *testing.T) {
	l, _ := stagedHistory(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "history.html")
	stats := func(args ...string) ran {
		return run(t, append([]string{"stats", "features.history", "--config", l.config}, args...)...)
	}
	got := stats("--html", path, "--json")
	require.Zero(t, got.code, got.stderr)
	require.True(t, json.Valid([]byte(got.stdout)))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "<title>Statistics of features.history</title>")
	require.Contains(t, string(text), "CH")
	require.Zero(t, stats("--html", path, "--no-values").code)
	without, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(without), ">CH<")
	require.NotZero(t, stats("--html", path, "--columns", "contry").code)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, without, kept)
	for _, wrong := range []string{folder, "-"} {
		got = stats("--html", wrong)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, "--html "+wrong)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary files are left")
}

// stats --against prints alarms, and its exit code says whether there are any.
//
// spec: stats-22
func TestStatsComparesSnapshots(t *testing.T) {
	l, _ := stagedHistory(t)
	config := []string{"--config", l.config}
	rows := func(name, country string, from int) string {
		var text strings.Builder
		for i := range 600 {
			fmt.Fprintf(&text, `,{"req_id": %d, "country": %q}`, from+i, country)
		}
		return l.parquetFile(t, name, "["+text.String()[1:]+"]")
	}
	stage := func(file string) string {
		got := run(t, append([]string{"stage", "features.history", file, "--no-check", "--json"}, config...)...)
		require.Zero(t, got.code, got.stderr)
		var out struct{ Snapshot string }
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		return out.Snapshot
	}
	first, second := stage(rows("x.parquet", "CH", 1000)), stage(rows("y.parquet", "DE", 2000))
	stats := func(args ...string) ran {
		return run(t, append(append([]string{"stats", "features.history", "--columns", "country"}, args...), config...)...)
	}
	same := stats(first, "--against", first)
	require.Zero(t, same.code, same.stderr)
	require.Contains(t, same.stdout, "no change is beyond its limit")
	got := stats("--against", first)
	require.Equal(t, exitFindings, got.code, got.stderr)
	require.Contains(t, got.stdout, "compared with snapshot "+first)
	require.Regexp(t, `(?m)^  country: the value CH is 50% of the values, and were 99.8% .*; also psi$`, got.stdout)
	require.Contains(t, stats("--against", first, "--no-values").stdout, "country: a frequent value is")
	asJSON := stats(second, "--against", first, "--json")
	require.Equal(t, exitFindings, asJSON.code)
	require.Contains(t, asJSON.stdout, `"measure": "top"`)
	require.Equal(t, exitUnverified, stats("--against", "mian").code)
	require.Contains(t, stats("--against", "1999-01-01").stderr, "no snapshot from before 1999-01-01T00:00:00Z")
}

// stats of a dataset describes its entries, as text and as JSON.
//
// spec: stats-50
func TestStatsDescribesADataset(t *testing.T) {
	l := readLake(t)
	stats := func(args ...string) ran { return run(t, append([]string{"stats", "--config", l.config}, args...)...) }
	got := stats("home")
	require.Zero(t, got.code, got.stderr)
	require.Regexp(t, `^dataset home  training table ml.impressions  \d+ rows\n`, got.stdout)
	require.Regexp(t, `(?m)^entry history  table features.history\n  \d+ of \d+ training rows match`, got.stdout)
	require.Regexp(t, `(?m)^  4 staging rows, 4 keys: 0 keys have several rows, `, got.stdout)
	require.Regexp(t, `(?m)^country +utf8 `, got.stdout)
	require.Contains(t, stats("ml.impressions").stdout, "table ml.impressions  ")
	same := stats("home", "--against", "home", "--columns", "country")
	require.Zero(t, same.code, same.stderr)
	require.Contains(t, same.stdout, "compared with dataset home, ")
	require.Contains(t, same.stdout, "no change is beyond its limit")
	var out struct {
		Dataset string
		Entries []struct {
			Name    string
			Matches struct{ Rows, Matched int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stats("home", "--json").stdout), &out))
	require.Equal(t, "home", out.Dataset)
	require.Equal(t, "history", out.Entries[0].Name)
	require.Positive(t, out.Entries[0].Matches.Matched)
	require.Contains(t, stats("hime").stderr, `did you mean "home"`)
	require.Contains(t, stats("home", "main").stderr, "leave out the snapshot")
	require.Contains(t, stats("home", "--keep").stderr, "the statistics of tables are kept")
	path := filepath.Join(t.TempDir(), "home.html")
	require.Zero(t, stats("home", "--html", path, "--against", "home").code)
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{"<title>Statistics of home</title>", "Staging entries", "<bdi>history</bdi>", "Compared with dataset home"} {
		require.Contains(t, string(page), want)
	}
}

// Alarms of a dataset name the staging entry of the column, and entries without alarms are listed.
//
// spec: stats-59
func TestAlarmsNameStagingEntries(t *testing.T) {
	change := func(entry, column, partition string) drift.Change {
		return drift.Change{Entry: entry, Column: column, Partition: partition, Measure: drift.Nulls}
	}
	quiet, loud := change("users", "age", ""), []drift.Change{change("prices", "cents", "2026-11-14"), change("prices", "prices", ""), change("", "position", "")}
	c := statistics.Comparison{Dataset: "home", Changes: append(loud, quiet)}
	for _, a := range loud {
		c.Alarms = append(c.Alarms, statistics.Alarm{Change: a, Text: "changed"})
	}
	require.Equal(t, `
compared with dataset home, 0 rows
  cents (prices), 2026-11-14: changed
  prices: changed
  position: changed
staging entries without a change beyond its limit: users
`, comparisonText(&c))
}

// The statistics of a snapshot are kept with the table, where a search for orphan files finds them in use.
//
// spec: stats-14, stats-15, stats-16
func TestStatsAreKeptWithTheTable(t *testing.T) {
	l, folder := stagedHistory(t)
	config := []string{"--config", l.config}
	penstock := func(args ...string) ran { return run(t, append(args, config...)...) }
	for _, args := range [][]string{{"--columns", "country"}, {"--against", "main"}, {"--label", "req_id"}} {
		require.Equal(t, exitUsage, penstock(append([]string{"stats", "features.history", "--keep"}, args...)...).code)
	}
	require.NotContains(t, penstock("log", "features.history").stdout, "statistics")
	plain := penstock("stats", "features.history", "--json")
	for range 2 {
		got := penstock("stats", "features.history", "--keep")
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, "kept with the table in ")
	}
	files, err := filepath.Glob(filepath.Join(folder, "metadata", "*.stats"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	leave(t, folder, "metadata/20261001_spark.stats")
	age(t, folder, 8)
	got := penstock("orphans", "features.history", "--remove")
	require.Zero(t, got.code, got.stderr)
	left, err := filepath.Glob(filepath.Join(folder, "metadata", "*.stats"))
	require.NoError(t, err)
	require.Len(t, left, 2, "the first file was replaced, and other programs' files stay: %s", got.stdout)
	content, err := os.ReadFile(left[1])
	require.NoError(t, err)
	require.Contains(t, string(content), compact(t, plain.stdout), "the result is in the file as JSON")
	require.Equal(t, plain, penstock("stats", "features.history", "--json"))
	log := loggedBy(t, config...)
	at := log.Snapshots[0].Snapshot
	require.Equal(t, []int64{at, 2}, []int64{log.Statistics.Snapshot, *log.Statistics.Rows})
	require.Contains(t, penstock("log", "features.history").stdout, "\nkept statistics: of snapshot "+itoa(at)+", 2 rows, made at ")
	require.Contains(t, penstock("explain", "history", "--splits").stdout, "\n  kept statistics: of snapshot "+itoa(at)+", 2 rows, made at ")

	text, err := os.ReadFile(l.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(l.config, []byte(strings.ReplaceAll(string(text), ", writes: {namespaces: [features]}", "")), 0o600))
	require.Contains(t, penstock("stats", "features.history", "--keep").stderr, "may not be changed")
}

// compact returns a JSON text without spaces.
func compact(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Compact(&out, []byte(text)))
	return out.String()
}

// stats --label finds a column that has the label.
//
// spec: stats-60, stats-61
func TestStatsComparesColumnsWithALabel(t *testing.T) {
	l := stagingLake(t)
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, `,{"req_id": %d, "clicked": %d, "later": %d, "noise": %d}`, i, i%2, 7+i%2, i%5)
	}
	fields := []arrow.Field{}
	for _, name := range []string{"req_id", "clicked", "later", "noise"} {
		fields = append(fields, nullable(name, arrow.PrimitiveTypes.Int64))
	}
	file := l.parquetOf(t, "a.parquet", "["+text.String()[1:]+"]", fields...)
	got := run(t, "stage", "features.history", file, "--key", "req_id", "--buckets", "2", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	for _, of := range []string{"features.history", "history"} {
		stats := func(args ...string) ran {
			return run(t, append([]string{"stats", of, "--label", "clicked", "--config", l.config}, args...)...)
		}
		got = stats("--columns", "later")
		require.Equal(t, exitFindings, got.code, got.stderr)
		require.Contains(t, got.stdout, "AUC of columns with the label clicked\n  later: 1.0000 in 200 rows  beyond 0.99: it probably has the label itself\n")
		got = stats("--columns", "noise", "--json")
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, `"measure": "auc"`)
		require.Contains(t, run(t, "stats", of, "--label", "click", "--config", l.config).stderr, `"click"`)
	}
}
