package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// duckDB lets the commands of a test find DuckDB as a module of Python, and nothing else.
func duckDB(t *testing.T) {
	t.Helper()
	python := os.Getenv("PENSTOCK_PYTHON")
	if python == "" {
		require.Empty(t, os.Getenv("CI"), "CI must set PENSTOCK_PYTHON; make test-go does")
		t.Skip("PENSTOCK_PYTHON names no Python with DuckDB; make test-go sets it")
	}
	t.Setenv("PATH", filepath.Dir(python))
}

// sqlLake returns a staging lake with the table features.history.
func sqlLake(t *testing.T) lake {
	t.Helper()
	l := stagingLake(t)
	file := l.parquetOf(t, "history.parquet", `[
		{"req_id": 1, "country": "CH", "clicks": 3, "unread": [1.5]}, {"req_id": 2, "country": "CH", "clicks": 4, "unread": null},
		{"req_id": 3, "country": "DE", "clicks": null, "unread": []}, {"req_id": 4, "country": null, "clicks": 5, "unread": [2.5, 3]}]`,
		nullable("req_id", arrow.PrimitiveTypes.Int64), nullable("country", arrow.BinaryTypes.String),
		nullable("clicks", arrow.PrimitiveTypes.Int64), nullable("unread", arrow.ListOf(arrow.PrimitiveTypes.Float64)))
	got := run(t, "stage", "features.history", file, "--key", "req_id", "--buckets", "2", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	return l
}

// rowsOf returns the rows of a table as JSON lines, sorted.
func (l lake) rowsOf(t *testing.T, table string) []string {
	t.Helper()
	got := run(t, "cat", "--config", l.config, "--query", `{"dataset": {"training": {"table": "`+table+`"}}}`, "--format", "jsonl", "--limit", "0")
	require.Zero(t, got.code, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	slices.Sort(lines)
	return lines
}

// spec: stage-180, stage-181, stage-187
func TestRowsOfSQLAreStaged(t *testing.T) {
	duckDB(t)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder) // other processes have folders in the usual one
	l := sqlLake(t)
	deleted := l.parquetFile(t, "more.parquet", `[{"req_id": 9, "country": "DE"}]`)
	for i, source := range [][]string{{"--config", l.config}, {"--uri", start(t, "--config", l.config).uri()}} {
		table := []string{"features.local", "features.remote"}[i]
		got := run(t, append([]string{
			"stage", table, "--key", "country", "--buckets", "2", "--sql",
			"SELECT h.country, sum(clicks) AS clicks, count(*) AS rows, max(f.req_id) AS more -- the totals\nFROM features.history h LEFT JOIN '" + deleted + "' f USING (country)\nWHERE h.country IS NOT NULL GROUP BY ALL;",
		}, source...)...)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, "rows 2, in ")
		require.Equal(t, []string{`{"country":"CH","clicks":7,"rows":2,"more":null}`, `{"country":"DE","clicks":null,"rows":1,"more":9}`}, l.rowsOf(t, table))
	}
	left, err := filepath.Glob(filepath.Join(folder, "penstock-*.folder"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// The table has one snapshot for all of the SQL, and names may have a catalog.
//
// spec: stage-180, stage-181, stage-186
func TestNamesOfTablesInSQL(t *testing.T) {
	duckDB(t)
	l := sqlLake(t)
	got := run(t, "stage", "features.sums", "--key", "n", "--buckets", "2", "--config", l.config, "--sql",
		`WITH h AS (SELECT * FROM "default".features.history) SELECT count(*) AS n, sum(a.clicks + b.clicks) AS clicks FROM h a JOIN features.history b USING (req_id)`)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, []string{`{"n":4,"clicks":24}`}, l.rowsOf(t, "features.sums"))

	for sql, want := range map[string]string{
		"SELECT * FROM features.histroy":                         "find table features.histroy of the SQL",
		"SELECT req_id, country AS REQ_ID FROM features.history": "several columns of the result have the name REQ_ID",
		"SELECT clikcs FROM features.history":                    `DuckDB: Binder Error: Referenced column "clikcs" not found in FROM clause!`,
		"SELEC 1":                                                `DuckDB: Parser Error: syntax error at or near "SELEC", at position 0 of the SQL`,
		"SELECT 1; SELECT 2":                                     "it has 2 statements",
		"INSERT INTO features.history SELECT 1":                  "Only SELECT statements can be serialized",
		" ; ":                                                    "the SQL is empty",
		"SELECT list(x) AS xs FROM (SELECT sum(clicks) AS x FROM features.history)":          "column xs has type HUGEINT[]",
		"SELECT CAST(country AS BIGINT) AS n FROM features.history":                          "DuckDB: Conversion Error",
		"SELECT 170141183460469231731687303715884105727::HUGEINT AS n FROM features.history": "DuckDB: Conversion Error",
		"SELECT req_id FROM features.history AT (VERSION => 1)":                              "is read with AT",
	} {
		got := run(t, "stage", "features.wrong", "--key", "n", "--buckets", "2", "--config", l.config, "--sql", sql)
		require.Equal(t, exitFailure, got.code, sql)
		require.Contains(t, got.stderr, want, sql)
	}
	for _, args := range [][]string{{"--from-table", "features.history"}, {"file.parquet"}, {"--schema", "a: int"}} {
		got := run(t, append([]string{"stage", "features.wrong", "--config", l.config, "--sql", "SELECT 1"}, args...)...)
		require.Equal(t, exitUsage, got.code, args)
	}
}

// Repeated SQL writes nothing as long as its tables have the same snapshots, even if the rows come
// in another order, and computes nothing. SQL that reads files or the clock is recognized by its rows.
//
// spec: stage-183
func TestRepeatedSQLWritesOnce(t *testing.T) {
	duckDB(t)
	l := sqlLake(t)
	stage := func(sql string, args ...string) ran {
		return run(t, append([]string{"stage", "features.sums", "--key", "country", "--buckets", "2", "--mode", "append", "--allow-duplicates", "--config", l.config, "--sql", sql}, args...)...)
	}
	has := regexp.MustCompile(`snapshot \d+ of table features.sums has the rows already`)
	sql := "SELECT country, sum(clicks) AS clicks FROM features.history GROUP BY country"
	for i, want := range []bool{false, true} {
		got := stage(sql)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, want, has.MatchString(got.stdout), i)
	}
	fails := "SELECT country, sum(clicks) AS clicks FROM features.history GROUP BY country HAVING error('computed') IS NULL"
	require.Equal(t, exitFailure, stage(fails).code)
	require.Len(t, l.rowsOf(t, "features.sums"), 3)
	got := stage(sql, "--again")
	require.Zero(t, got.code, got.stderr)
	require.False(t, has.MatchString(got.stdout))

	more := l.parquetFile(t, "more.parquet", `[{"req_id": 9, "country": "DE"}]`)
	require.Zero(t, run(t, "stage", "features.history", more, "--config", l.config).code)
	got = stage(sql)
	require.Zero(t, got.code, got.stderr)
	require.False(t, has.MatchString(got.stdout), "the table has another snapshot")

	file := "SELECT country, req_id AS clicks FROM '" + more + "'"
	require.False(t, has.MatchString(stage(file).stdout))
	got = stage(file)
	require.True(t, has.MatchString(got.stdout), "the rows are the same: %+v", got)
	l.parquetFile(t, "more.parquet", `[{"req_id": 10, "country": "DE"}]`)
	require.False(t, has.MatchString(stage(file).stdout), "the file has other rows")
}

// The program duckdb is preferred to the module; without either, the error says how to install it.
//
// spec: stage-185
func TestTheProgramDuckDB(t *testing.T) {
	duckDB(t)
	l := sqlLake(t)
	bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	script := "#!/bin/sh\necho \"$@\" >> " + calls + "\nexec " + os.Getenv("PENSTOCK_PYTHON") + " -c 'import duckdb, os, sys\n" +
		"try: duckdb.connect().execute(sys.stdin.read())\nexcept duckdb.Error as e: print(e, file=sys.stderr, flush=True); os._exit(1)\nos._exit(0)'\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "duckdb"), []byte(script), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", bin)
	args := []string{"stage", "features.sums", "--key", "n", "--buckets", "2", "--config", l.config, "--sql", "SELECT count(*) AS n FROM features.history"}
	got := run(t, args...)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, []string{`{"n":4}`}, l.rowsOf(t, "features.sums"))
	require.Equal(t, strings.Repeat("-init /dev/null -batch -bail\n", 4), string(must(os.ReadFile(calls))))

	require.NoError(t, os.WriteFile(filepath.Join(bin, "duckdb"), []byte("#!/bin/sh\nexit 3\n"), 0o700)) //nolint:gosec // a program
	got = run(t, args...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "exit status 3")

	t.Setenv("PATH", t.TempDir())
	got = run(t, args...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "--sql needs DuckDB")
	require.Contains(t, got.stderr, "pip install duckdb")
}
