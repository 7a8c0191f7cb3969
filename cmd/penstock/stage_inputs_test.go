package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
)

// staged stages files to features.history, and returns the result of the command.
func (l lake) staged(t *testing.T, args ...string) ran {
	t.Helper()
	return run(t, append([]string{"stage", "features.history", "--config", l.config, "--key", "req_id", "--buckets", "4"}, args...)...)
}

// spec: stage-130, stage-131
func TestFoldersAreStaged(t *testing.T) {
	l := stagingLake(t)
	require.NoError(t, os.MkdirAll(filepath.Join(l.dir, "in", "deep"), 0o700))
	l.parquetFile(t, "in/b.parquet", `[{"req_id": 1, "country": "CH"}]`)
	l.parquetFile(t, "in/deep/a.parquet", `[{"req_id": 2, "country": "DE"}, {"req_id": 3, "country": "FR"}]`)
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "in", "_SUCCESS"), nil, 0o600))
	got := l.staged(t, "--dry-run", filepath.Join(l.dir, "in"))
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "rows 3, in ")
	got = l.staged(t, "file://"+l.dir+"/in/*.parquet")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "rows 1, in ")

	require.NoError(t, os.WriteFile(filepath.Join(l.dir, "in", "deep", "b.parquet"), []byte("no Parquet"), 0o600))
	got = l.staged(t, filepath.Join(l.dir, "in"))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "deep/b.parquet cannot be read as a Parquet file")
	got = run(t, "cat", "history", "--config", l.config, "--format", "jsonl", "--limit", "0")
	require.JSONEq(t, `{"req_id": 1, "country": "CH"}`, got.stdout)
}

// In process, files are read with the properties of the table's catalog. With a server, the client
// reads them with the settings of its own environment.
//
// spec: stage-132, stage-133
func TestFilesOnS3AreStaged(t *testing.T) {
	l := stagingLake(t)
	g, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	require.NoError(t, g.MakeBucket(t.Context(), "lake"))
	for i, rows := range []string{`[{"req_id": 1, "country": "CH"}]`, `[{"req_id": 2, "country": "DE"}, {"req_id": 3, "country": "FR"}]`} {
		file := l.parquetFile(t, "local.parquet", rows)
		require.NoError(t, g.Put(t.Context(), "lake", fmt.Sprintf("in/day=%d/part 0.parquet", i), must(os.ReadFile(file)))) //nolint:gosec // a test's own file
	}
	l.config = l.file(t, "penstock.yaml", fmt.Sprintf(`
catalogs:
  default:
    type: sql
    uri: "sqlite:///catalog.db"
    warehouse: "file://%s"
    writes: {namespaces: [features]}
    s3.endpoint: %s
    s3.access-key-id: %s
    s3.secret-access-key: %s
`, l.dir, g.URL, gatewaytest.Access, gatewaytest.Secret))
	for _, c := range []struct{ name, want string }{
		{"s3://lake/in/", "rows 3, in "}, {"s3://lake/in/day=0/part 0.parquet", "rows 1, in "}, {"s3a://lake/*/day=[1-9]/part*", "rows 2, in "},
	} {
		got := l.staged(t, "--dry-run", c.name)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, c.want)
	}
	got := l.staged(t, "s3://lake/in/none.parquet")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "s3://lake/in/none.parquet")

	server := start(t, "--config", l.config)
	defer server.signal(t)
	t.Setenv("AWS_ENDPOINT_URL", g.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", gatewaytest.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", gatewaytest.Secret)
	got = run(t, "stage", "features.remote", "s3://lake/in/", "--uri", server.uri(), "--key", "req_id", "--buckets", "4")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "rows 3, in ")
}

// Columns of CSV files and of folder names get the types of the table, or those given with
// --schema.
//
// spec: stage-134, stage-135, stage-136
func TestFilesWithTheTypesOfTheTable(t *testing.T) {
	l := stagingLake(t)
	write := func(name, text string) string {
		path := filepath.Join(l.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	got := l.staged(t, write("a.csv", "req_id,country\n1,CH\n"))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "neither the table nor --schema gives a type for these columns of "+l.dir+"/a.csv: req_id, country")
	got = l.staged(t, filepath.Join(l.dir, "a.csv"), "--schema", "req_id: long, country: string")
	require.Zero(t, got.code, got.stderr)
	write("in/country=07/req_id=2/a.csv", "req_id\n2\n")
	write("in/country=F%2FR/req_id=3/a.csv", "req_id\n3\n")
	got = l.staged(t, filepath.Join(l.dir, "in"))
	require.Zero(t, got.code, got.stderr)
	got = run(t, "cat", "history", "--config", l.config, "--format", "csv", "--limit", "0")
	require.Zero(t, got.code, got.stderr)
	for _, row := range []string{"1,CH", "2,07", "3,F/R"} {
		require.Contains(t, got.stdout, row+"\n")
	}

	got = l.staged(t, write("b.csv", "req_id,country\n4,CH\nfive,DE\n"))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, `b.csv, line 3, byte 1: "five" is not a value of column req_id, which has type long`)
	got = l.staged(t, filepath.Join(l.dir, "b.csv"), "--schema", "req_id: serial")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "column req_id has an unknown type")

	server := start(t, "--config", l.config)
	defer server.signal(t)
	got = run(t, "stage", "features.history", "--uri", server.uri(), filepath.Join(l.dir, "in"), "--schema", "req_id: long, country: string", "--again")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "rows 2, in ")
}

// spec: stage-139
func TestStandardInputIsStaged(t *testing.T) {
	l := stagingLake(t)
	args := []string{"stage", "features.history", "-", "--config", l.config, "--key", "req_id", "--buckets", "4", "--schema", "req_id: long"}
	got := runWith(t, process{terminal: terminal{stdin: strings.NewReader("req_id\n1\n2\n")}}, append(args, "--input-format", "csv")...)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "rows 2, in ")
	got = run(t, args...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "standard input has an unknown format")
	got = run(t, append(args, "--input-format", "xml")...)
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "want arrow, csv or jsonl")
}

// Rows of another table are those of one snapshot that pass the filter, in process and with a server.
//
// spec: stage-153
func TestTablesAreStaged(t *testing.T) {
	l := stagingLake(t)
	first := l.staged(t, l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`), "--json")
	require.Zero(t, first.code, first.stderr)
	var made struct {
		Snapshot int64 `json:",string"`
	}
	require.NoError(t, json.Unmarshal([]byte(first.stdout), &made))
	require.Zero(t, l.staged(t, l.parquetFile(t, "b.parquet", `[{"req_id": 3, "country": "FR"}, {"req_id": 4, "country": null}]`)).code)

	server := start(t, "--config", l.config)
	defer server.signal(t)
	for i, source := range [][]string{{"--config", l.config}, {"--uri", server.uri()}} {
		table := fmt.Sprintf("features.copy%d", i)
		copied := func(args ...string) ran {
			got := run(t, append(append([]string{"stage", table, "--from-table", "features.history", "--key", "req_id", "--like", "features.history"}, source...), args...)...)
			require.Zero(t, got.code, got.stderr)
			return got
		}
		require.Contains(t, copied("--dry-run").stdout, "rows 4, in ")
		require.Contains(t, copied("--dry-run", "--filter", "country IS NULL").stdout, "rows 1, in ")
		require.Contains(t, copied("--dry-run", "--from-snapshot", strconv.FormatInt(made.Snapshot, 10)).stdout, "rows 2, in ")
		require.Contains(t, copied("--columns", "req_id, country", "--filter", "req_id IN (1, 3)").stdout, "rows 2, in ")
		query := fmt.Sprintf(`{"dataset": {"training": {"table": %q}}}`, table)
		got := run(t, "cat", "--config", l.config, "--format", "csv", "--query", query)
		require.Zero(t, got.code, got.stderr)
		require.ElementsMatch(t, []string{"req_id,country", "1,CH", "3,FR", ""}, strings.Split(got.stdout, "\n"))
	}
	for message, args := range map[string][]string{
		"leave files, --schema":                {"--from-table", "features.history", "a.parquet"},
		"are for --from-table":                 {"a.parquet", "--filter", "a = 1"},
		"at least one file or folder, or":      {},
		"want the number of a snapshot":        {"--from-table", "features.history", "--from-snapshot", "x"},
		"ref and snapshot cannot be combined":  {"--from-table", "features.history", "--from-snapshot", "1", "--from-ref", "candidate"},
		"table features.histor does not exist": {"--from-table", "features.histor"},
	} {
		got := l.staged(t, args...)
		require.NotZero(t, got.code)
		require.Contains(t, got.stderr, message)
	}
}

// Columns can be computed from the columns of files and tables, which are then staged, too, unless --columns leaves them out.
//
// spec: stage-188, stage-189
func TestComputedColumnsAreStaged(t *testing.T) {
	l := stagingLake(t)
	file := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": null}]`)
	got := l.staged(t, file, "--compute", "next = req_id + 1", "--compute", "known = CASE WHEN country IS NOT NULL THEN 1 ELSE 0 END")
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, []string{`{"req_id":1,"country":"CH","next":2,"known":1}`, `{"req_id":2,"country":null,"next":3,"known":0}`}, l.rowsOf(t, "features.history"))
	for i, source := range [][]string{{"--config", l.config}, {"--uri", start(t, "--config", l.config).uri()}} {
		table := []string{"features.local", "features.remote"}[i]
		got := run(t, append([]string{
			"stage", table, "--from-table", "features.history", "--compute", "half = next / 2", "--columns", "req_id, half", "--key", "req_id", "--buckets", "2",
		}, source...)...)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, []string{`{"req_id":1,"half":1}`, `{"req_id":2,"half":1.5}`}, l.rowsOf(t, table))
	}
	got = l.staged(t, "--sql", "SELECT 1 AS req_id", "--compute", "next = req_id + 1")
	require.Equal(t, exitUsage, got.code)
}
