package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
)

// stagingLake returns a lake with an empty catalog that allows writes to the namespace features.
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

// parquetFile writes a Parquet file with the columns req_id and country, and returns its path.
func (l lake) parquetFile(t *testing.T, name, rows string) string {
	t.Helper()
	return l.parquetOf(t, name, rows, nullable("req_id", arrow.PrimitiveTypes.Int64), nullable("country", arrow.BinaryTypes.String))
}

func nullable(name string, of arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: of, Nullable: true}
}

// parquetOf writes a Parquet file with some columns, and returns its path.
func (l lake) parquetOf(t *testing.T, name, rows string, fields ...arrow.Field) string {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
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

// TestRelativeWarehousesAreInTheFolderOfTheFile checks that a relative warehouse path starts at the
// folder of the config file, whatever the working directory of the command.
//
// spec: write-21
func TestRelativeWarehousesAreInTheFolderOfTheFile(t *testing.T) {
	for _, warehouse := range []string{"warehouse", "./warehouse", "../lake/warehouse", "."} {
		t.Run(warehouse, func(t *testing.T) {
			l := lake{dir: filepath.Join(t.TempDir(), "lake")}
			require.NoError(t, os.Mkdir(l.dir, 0o700))
			_, done := newCatalog(t, l.dir)
			done()
			l.config = l.file(t, "penstock.yaml", fmt.Sprintf(`
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: %q, writes: {namespaces: [features]}}
datasets:
  history: {training: {table: features.history}, key: [req_id]}
`, warehouse))
			file := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}]`)
			t.Chdir(t.TempDir())
			got := run(t, "stage", "features.history", file, "--config", l.config, "--key", "req_id", "--buckets", "4")
			require.Zero(t, got.code, got.stderr)
			require.DirExists(t, filepath.Join(l.dir, warehouse, "features", "history", "metadata"))
			got = run(t, "cat", "history", "--uri", start(t, "--config", l.config).uri(), "--format", "jsonl", "--limit", "0")
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, 1, strings.Count(got.stdout, "\n"))
		})
	}
}

// TestNewTablesOutsideTheWarehouseAreRefusedBeforeTheirRows checks dry runs, too.
//
// spec: write-21
func TestNewTablesOutsideTheWarehouseAreRefusedBeforeTheirRows(t *testing.T) {
	l := stagingLake(t)
	file := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}]`)
	for name, c := range map[string]struct{ places, refusal string }{
		"no warehouse":       {"", "the catalog has no warehouse to put it into"},
		"prefixes elsewhere": {fmt.Sprintf("warehouse: %q, allowed_prefixes: [/elsewhere], ", l.dir), "is not under the catalog's warehouse or allowed_prefixes"},
	} {
		config := l.file(t, "elsewhere.yaml", "catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\", "+c.places+"writes: {namespaces: [features]}}\n")
		for _, dry := range [][]string{{"--dry-run"}, nil} {
			got := run(t, append([]string{"stage", "features.new", file, "--config", config, "--key", "req_id", "--buckets", "4"}, dry...)...)
			require.Equal(t, exitFailure, got.code, "%s %v", name, dry)
			require.Contains(t, got.stderr, c.refusal, "%s %v", name, dry)
			require.NoDirExists(t, filepath.Join(l.dir, "features", "new"))
		}
	}
}

// spec: stage-43, stage-44, stage-46, stage-192, stage-193
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
	require.Contains(t, got.stdout, "the table is new\npartitioned by bucket[4](req_id)\nrows with a null in the key, which match nothing: 1\ntoken ")
	require.Equal(t, 3, rows())

	got = run(t, "stage", "features.history", b, "--config", l.config, "--branch", "candidate", "--json")
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, `"rows": 1`)
	require.Equal(t, 3, rows())
	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, 4, rows())
	move := regexp.MustCompile(`penstock undo features.history --from (\d+) --to (\d+) --config `).FindStringSubmatch(got.stdout)
	require.NotNil(t, move, got.stdout)
	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Contains(t, got.stdout, "already")
	got = run(t, "undo", "features.history", "--from", move[1], "--to", move[2], "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, 3, rows())

	got = run(t, "publish", "features.history", "candidate", "--dry-run", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "dry run: main of table features.history would move from snapshot "+move[1]+" to snapshot "+move[2]+" of branch candidate\n")
	require.Contains(t, got.stdout, "penstock publish features.history candidate --from "+move[1]+" --to "+move[2]+" --config ")
	require.Equal(t, 3, rows())
	got = run(t, "publish", "features.history", "candidate", "--from", "none", "--to", move[2], "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "table features.history has moved: main is at snapshot "+move[1]+", not at no snapshot")
	for range 2 {
		got = run(t, "publish", "features.history", "candidate", "--from", move[1], "--to", move[2], "--config", l.config)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, "moved from snapshot "+move[1]+" to snapshot "+move[2])
	}
	require.Equal(t, 4, rows())
	later := run(t, "stage", "features.history", b, "--again", "--config", l.config)
	id := regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(later.stdout)
	require.NotNil(t, id, later.stdout)
	got = run(t, "undo", "features.history", "--from", move[1], "--to", move[2], "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, id[1])
	require.Equal(t, 5, rows())
}

// A repeated stage writes nothing, locally and through a server, and --again writes the rows.
//
// spec: stage-143, stage-148
func TestRepeatedStagesWriteOnce(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}]`)
	b := l.parquetFile(t, "b.parquet", `[{"req_id": 2, "country": null}]`)
	all := l.parquetFile(t, "all.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": null}]`)
	first := run(t, "stage", "features.history", a, b, "--key", "req_id", "--buckets", "2", "--config", l.config)
	require.Zero(t, first.code, first.stderr)
	id := regexp.MustCompile(`^snapshot (\d+) `).FindStringSubmatch(first.stdout)
	token := regexp.MustCompile(`\ntoken (\S+)\n`).FindStringSubmatch(first.stdout)
	require.NotNil(t, id, first.stdout)
	require.NotNil(t, token, first.stdout)
	want := "snapshot " + id[1] + " of table features.history has the rows already: nothing was written\ntoken " + token[1] + "\n"
	source := [][]string{{"--config", l.config}, {"--uri", start(t, "--config", l.config).uri()}}
	for _, from := range source {
		for _, files := range [][]string{{a, b}, {all}} {
			got := run(t, slices.Concat([]string{"stage", "features.history", "--no-check"}, files, from)...)
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, want+"to write them once more: --again\n", got.stdout)
		}
		got := run(t, slices.Concat([]string{"stage", "features.history", "--no-check", all, "--token", token[1]}, from)...)
		require.Equal(t, want, got.stdout)
	}
	for i, from := range source {
		got := run(t, slices.Concat([]string{"stage", "features.history", all, "--again", "--allow-duplicates", "--json"}, from)...)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, `"rows": 2`)
		got = run(t, "cat", "history", "--config", l.config, "--format", "jsonl", "--limit", "0")
		require.Equal(t, 4+2*i, strings.Count(got.stdout, "\n"))
	}
}

// Each stage prints a command that undoes it. After that, the table is empty, the branch is at its
// previous snapshot, or a new branch is removed.
//
// spec: stage-81, history-24, history-25, history-27
func TestStagesAreUndone(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	undo := regexp.MustCompile(`\nto take it back: penstock (undo .*)\n$`)
	stage := func(args ...string) []string {
		got := run(t, append([]string{"stage", "features.history", a, "--again", "--config", l.config}, args...)...)
		require.Zero(t, got.code, got.stderr)
		found := undo.FindStringSubmatch(got.stdout)
		require.NotNil(t, found, got.stdout)
		return strings.Fields(found[1])
	}
	takeBack := func(args []string, want string) {
		got := run(t, args...)
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, want)
	}
	rows := func() int {
		got := run(t, "cat", "history", "--config", l.config, "--format", "jsonl", "--limit", "0")
		require.Zero(t, got.code, got.stderr)
		return strings.Count(got.stdout, "\n")
	}
	first := stage("--key", "req_id", "--buckets", "2")
	require.Contains(t, first, "--yes")
	got := run(t, slices.DeleteFunc(slices.Clone(first), func(arg string) bool { return arg == "--yes" })...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "the change created table features.history, so undo drops the table; it is read by history\n  → to drop the table, add --yes")
	require.Equal(t, 2, rows())
	got = run(t, "undo", "features.history", "--dry-run", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, "table features.history is dropped then, which needs --yes\n")
	printed := " " + strings.Join(first, " ") + "\n"
	require.Contains(t, got.stdout, "to take it back: penstock"+printed)
	got = run(t, "log", "features.history", "--config", l.config)
	require.Contains(t, got.stdout, "to take it back: penstock"+printed)
	takeBack(first, "table features.history is dropped; its files stay in ")
	require.Equal(t, exitFailure, run(t, "log", "features.history", "--config", l.config).code)
	require.Contains(t, run(t, first...).stderr, "features.history")
	stage("--key", "req_id", "--buckets", "4")
	require.Contains(t, run(t, "tables", "features", "--config", l.config).stdout, "bucket[4](req_id)")
	require.Equal(t, 2, rows())
	second := stage()
	require.Equal(t, 4, rows())
	takeBack(second, "main of table features.history is at snapshot ")
	require.Equal(t, 2, rows())
	branched := stage("--branch", "candidate")
	more := stage("--branch", "candidate")
	got = run(t, branched...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "branch candidate of table features.history has later snapshots")
	require.NotContains(t, slices.Concat(second, branched, more), "--yes")
	takeBack(more, "candidate of table features.history is at snapshot ")
	takeBack(branched, "branch candidate of table features.history is removed\ndataset history: reads main, which stays as it is\n")
	got = run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Equal(t, 2, rows())

	swapped := slices.Clone(second)
	from, to := slices.Index(swapped, "--from")+1, slices.Index(swapped, "--to")+1
	swapped[from], swapped[to] = swapped[to], swapped[from]
	got = run(t, swapped...)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "does not come from")
	got = run(t, "undo", "features.history", "--from", "nothing", "--to", "1", "--config", l.config)
	require.Equal(t, exitUsage, got.code)
}

// With --only-keys-of, rows are staged only if their key occurs in a training row that the dataset
// reads, or in a row of the named table.
//
// spec: stage-49
func TestOnlyKeysOfTrainingRowsAreStaged(t *testing.T) {
	l := stagingLake(t)
	l.config = l.file(t, "joined.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features]}}
datasets:
  swiss:
    training: {table: features.impressions, filter: "country = 'CH'"}
    key: [req_id]
    staging: [{table: features.history}]
  other:
    training: {table: features.impressions}
    key: [req_id]
    staging: [{table: features.history, key: {country: country}}]
`)
	trained := l.parquetFile(t, "t.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 1, "country": "CH"}, {"req_id": 3, "country": "DE"}, {"req_id": null, "country": "CH"}]`)
	rows := l.parquetFile(t, "h.parquet", `[{"req_id": 1, "country": "FR"}, {"req_id": 2, "country": "FR"}, {"req_id": 3, "country": "FR"}, {"req_id": null}]`)
	got := run(t, "stage", "features.impressions", trained, "--config", l.config, "--key", "req_id", "--buckets", "2")
	require.Zero(t, got.code, got.stderr)
	staged := func(of string) string {
		got := run(t, "stage", "features.history", rows, "--config", l.config, "--key", "req_id", "--buckets", "2", "--allow-duplicates", "--again", "--only-keys-of", of)
		require.Zero(t, got.code, got.stderr)
		return got.stdout
	}
	text := staged("swiss")
	require.Contains(t, text, "rows 1, in 1 partition\n")
	require.Contains(t, text, "rows dropped, whose key no training row has: 3, of them with a null in the key: 1\n")
	require.Contains(t, staged("features.impressions"), "rows 2, in ")
	require.Contains(t, staged("default.features.impressions"), "rows 2, in ")

	for of, want := range map[string]string{
		"swss":             "swiss",
		"features.nothing": "features.nothing",
		"other":            "does not join table features.history by column req_id",
	} {
		got := run(t, "stage", "features.history", rows, "--config", l.config, "--key", "req_id", "--only-keys-of", of)
		require.Equal(t, exitFailure, got.code, of)
		require.Contains(t, got.stderr, want)
	}
	got = run(t, "stage", "features.history", l.parquetFile(t, "u.parquet", `[{"req_id": 2}, {"req_id": null}]`), "--config", l.config, "--only-keys-of", "swiss")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "none of the 2 rows has a key of a training row of swiss: nothing was written")
	texts := run(t, "stage", "features.history", rows, "--config", l.config, "--key", "country", "--only-keys-of", "swiss")
	require.Equal(t, exitFailure, texts.code)
	require.Contains(t, texts.stderr, "by column country of its key")
}

// If a table has a partition field besides its buckets, single partitions can be replaced. A table
// created with --like has the same partition spec.
//
// spec: stage-51, stage-52
func TestNewTablesArePartitioned(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	b := l.parquetFile(t, "b.parquet", `[{"req_id": 3, "country": "CH"}]`)
	replace := func(table, file string, args ...string) string {
		got := run(t, append([]string{"stage", table, file, "--config", l.config, "--mode", "replace", "--key", "req_id"}, args...)...)
		require.Zero(t, got.code, got.stderr)
		return got.stdout
	}
	text := replace("features.history", a, "--buckets", "4", "--partition", "country")
	require.Contains(t, text, "the table is new\npartitioned by country, bucket[4](req_id)\ntoken")
	require.Contains(t, replace("features.history", b), "files replaced: 1, with 1 row before and 1 now\n")
	got := run(t, "cat", "history", "--config", l.config, "--format", "jsonl", "--limit", "0")
	require.Zero(t, got.code, got.stderr)
	require.NotContains(t, got.stdout, `"req_id":1,`)
	require.Equal(t, 2, strings.Count(got.stdout, "\n"))

	text = replace("features.like", a, "--like", "features.history")
	require.Contains(t, text, "partitioned by country, bucket[4](req_id)\nas table features.history is: country\n")
}

func TestMistakesInStage(t *testing.T) {
	l := stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1}]`)
	text := l.file(t, "text.parquet", "no Parquet")
	for want, args := range map[string][]string{
		"needs a table and at least one file or folder": {"stage", "features.history"},
		"--mode merge: want append or replace":          {"stage", "features.history", a, "--mode", "merge"},
		"--buckets many: want a whole number":           {"stage", "features.history", a, "--buckets", "many"},
		"give buckets or like":                          {"stage", "features.history", a, "--buckets", "2", "--like", "ml.x"},
		"give --config FILE":                            {"stage", "features.history", a},
		"has spaces or quotes":                          {"stage", "features.my table", a, "--config", l.config},
		"needs a table and a branch":                    {"publish", "features.history"},
		"needs a table\n":                               {"undo"},
		"--from needs the id of a snapshot":             {"undo", "features.history", "--from", "x"},
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

// The help of the commands that write tables matches a golden file.
func TestHelpOfStage(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"stage", "publish", "undo", "compact", "restore", "orphans"} {
		got := run(t, name, "--help")
		require.Zero(t, got.code, got.stderr)
		all.WriteString(got.stdout)
	}
	golden(t, "stage-help.txt", all.String())
}
