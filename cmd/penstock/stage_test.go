package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
)

// stagingLake is a catalog whose namespace features is written to.
func stagingLake(t *testing.T) lake {
	t.Helper()
	l := lake{dir: t.TempDir()}
	_, done := newCatalog(t, l.dir)
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  history:
    training: {table: features.history}
    key: [req_id]
`)
	return l
}

// parquetFile writes rows of a key and a country.
func (l lake) parquetFile(t *testing.T, name, rows string) string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "req_id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	require.NoError(t, err)
	path := filepath.Join(l.dir, name)
	file, err := os.Create(path) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	w, err := pqarrow.NewFileWriter(schema, file, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(b))
	require.NoError(t, w.Close())
	return path
}

// spec: stage-43, stage-44, stage-46
func TestStagePublishAndUndo(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": null, "country": "DE"}]`)
	b := l.parquetFile(t, "b.parquet", `[{"req_id": 2, "country": "FR"}]`)
	rows := func() int {
		got := run(t, "cat", "history", "--config", l.config, "--format", "jsonl", "--limit", "0")
		require.Zero(t, got.code, got.stderr)
		return strings.Count(got.stdout, "\n")
	}
	got := run(t, "stage", "features.history", a, b, "--config", l.config, "--key", "req_id", "--buckets", "4")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "rows 3, in ")
	require.Contains(t, got.stdout, "the table is new\nrows with a null in the key, which match nothing: 1\ntoken ")
	require.Equal(t, 3, rows())

	got = run(t, "stage", "features.history", b, "--config", l.config, "--branch", "candidate", "--json")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, `"rows": 1`)
	require.Equal(t, 3, rows())
	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, 4, rows())
	move := regexp.MustCompile(`penstock undo features.history --from (\d+) --to (\d+)\n$`).FindStringSubmatch(got.stdout)
	require.NotNil(t, move, got.stdout)
	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Contains(t, got.stdout, "already")
	got = run(t, "undo", "features.history", "--from", move[1], "--to", move[2], "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, 3, rows())

	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	later := run(t, "stage", "features.history", b, "--config", l.config)
	id := regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(later.stdout)
	require.NotNil(t, id, later.stdout)
	got = run(t, "undo", "features.history", "--from", move[1], "--to", move[2], "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, id[1])
	require.Equal(t, 5, rows())
}

func TestMistakesInStage(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1}]`)
	text := l.file(t, "text.parquet", "no Parquet")
	for want, args := range map[string][]string{
		"needs a table and at least one Parquet file": {"stage", "features.history"},
		"is neither append nor replace":               {"stage", "features.history", a, "--mode", "merge"},
		"is not a number above 0":                     {"stage", "features.history", a, "--buckets", "many"},
		"give one of them":                            {"stage", "features.history", a, "--buckets", "2", "--like", "ml.x"},
		"give --config FILE":                          {"stage", "features.history", a},
		"needs a table and a branch":                  {"publish", "features.history"},
		"needs a table\n":                             {"undo"},
		"--from needs the id of a snapshot":           {"undo", "features.history", "--from", "x"},
	} {
		got := run(t, args...)
		require.Equal(t, exitUsage, got.code, want)
		require.Contains(t, got.stderr, want)
	}
	for want, files := range map[string][]string{
		"missing.parquet": {filepath.Join(l.dir, "missing.parquet")},
		"cannot be read":  {text},
	} {
		got := run(t, append([]string{"stage", "features.history", "--key", "req_id", "--buckets", "2", "--config", l.config}, files...)...)
		require.Equal(t, exitFailure, got.code)
		require.Contains(t, got.stderr, want)
	}
}

// The help of the commands that write is that of a golden file.
func TestHelpOfStage(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"stage", "publish", "undo"} {
		got := run(t, name, "--help")
		require.Zero(t, got.code, got.stderr)
		all.WriteString(got.stdout)
	}
	golden(t, "stage-help.txt", all.String())
}
