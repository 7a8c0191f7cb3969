package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
)

// mistake is a command that writes, with something wrong, and the parts of its error: what is wrong, and a remedy.
type mistake struct {
	name string
	args []string
	says string
	todo string
}

// mistakeLake is a lake with tables that commands wrote, and datasets that read them.
type mistakeLake struct {
	lake
	good    string            // a file with new rows of features.history
	changes map[string]string // snapshots, by a name
}

// newMistakeLake writes the tables: ml.impressions, features.history and features.daily by penstock stage, and features.other, which
// has a required column, by another program.
func newMistakeLake(t *testing.T) mistakeLake {
	t.Helper()
	l := mistakeLake{lake: lake{dir: t.TempDir()}, changes: map[string]string{}}
	c, done := newCatalog(t, l.dir)
	write(t, c, "features.named", []iceberg.NestedField{{ID: 1, Name: "req_id", Type: iceberg.PrimitiveTypes.Int64, Required: true}, {ID: 2, Name: "country", Type: iceberg.PrimitiveTypes.String}},
		`[{"req_id": 1, "country": "CH"}]`)
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", warehouse: "file://`+l.dir+`", writes: {namespaces: [features, ml]}}
  read: {type: sql, uri: "sqlite:///catalog.db"}
datasets:
  home:
    training: {table: ml.impressions}
    key: [req_id]
    staging:
    - {table: features.history}
    - {table: features.daily, name: daily, prefix: daily_, duplicates: first}
    - {table: features.named, name: kept, prefix: kept_, join: inner}
  named: {training: {table: features.named}, key: [req_id]}
  daily: {training: {table: features.daily}, key: [req_id]}
`)
	day := nullable("day", arrow.FixedWidthTypes.Date32)
	id, country := nullable("req_id", arrow.PrimitiveTypes.Int64), nullable("country", arrow.BinaryTypes.String)
	l.makes(t, "impressions", "ml.impressions", l.parquetOf(t, "impressions.parquet", `[{"req_id": 1}, {"req_id": 1}, {"req_id": 2}, {"req_id": 3}]`, id), "--key", "req_id", "--buckets", "4", "--allow-duplicates")
	l.makes(t, "history", "features.history", l.parquetFile(t, "history.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`), "--key", "req_id", "--like", "ml.impressions")
	l.makes(t, "daily", "features.daily", l.parquetOf(t, "daily.parquet", `[{"req_id": 1, "day": "2026-10-01"}, {"req_id": 2, "day": "2026-10-01"}, {"req_id": 3, "day": "2026-10-01"}, {"req_id": 1, "day": "2026-10-02"}]`, id, day),
		"--key", "req_id", "--buckets", "2", "--partition", "day")
	l.good = l.parquetOf(t, "good.parquet", `[{"req_id": 7, "country": "FR"}]`, id, country)
	l.makes(t, "undone", "features.history", l.good, "--token", "undone")
	got := run(t, "undo", "features.history", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	l.makes(t, "candidate", "features.history", l.good, "--branch", "candidate")
	l.makes(t, "later", "features.history", l.parquetFile(t, "later.parquet", `[{"req_id": 3, "country": null}]`))
	return l
}

// makes stages a file, and keeps the snapshot under a name.
func (l mistakeLake) makes(t *testing.T, name, table, file string, args ...string) {
	t.Helper()
	got := run(t, append([]string{"stage", table, file, "--config", l.config}, args...)...)
	require.Zero(t, got.code, got.stderr)
	l.changes[name] = regexp.MustCompile(`^snapshot (\d+) `).FindStringSubmatch(got.stdout)[1]
}

// reads returns the rows of all datasets, and the snapshots of all tables.
func (l mistakeLake) reads(t *testing.T) (out []string) {
	t.Helper()
	for _, command := range []string{"cat home", "cat named", "cat daily"} {
		got := run(t, append(strings.Fields(command), "--format", "csv", "--limit", "0", "--config", l.config)...)
		require.Zero(t, got.code, got.stderr)
		out = append(out, got.stdout)
	}
	for _, table := range []string{"ml.impressions", "features.history", "features.daily", "features.named"} {
		got := run(t, "log", table, "--json", "--config", l.config)
		require.Zero(t, got.code, got.stderr)
		out = append(out, got.stdout)
	}
	return out
}

// mistakesInFiles are stages of files that do not fit the table.
func (l mistakeLake) mistakesInFiles(t *testing.T) []mistake {
	p, text := arrow.PrimitiveTypes, arrow.BinaryTypes.String
	id, country := nullable("req_id", p.Int64), nullable("country", text)
	table := "features.history"
	of := func(name, rows string, fields ...arrow.Field) string {
		return l.parquetOf(t, name+".parquet", rows, fields...)
	}
	raw := func(name, content string) string {
		path := filepath.Join(l.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	whole, err := os.ReadFile(l.good)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(l.dir, "empty"), 0o700))
	raw("delta/_delta_log/00000000000000000000.json", "{}")
	raw("delta/part.parquet", string(whole))
	other := of("other", `[{"req_id": 8, "city": "x"}]`, id, nullable("city", text))
	return []mistake{
		{"a column of another type", []string{"stage", table, of("numbers", `[{"req_id": 7, "country": 1}]`, id, nullable("country", p.Int32))}, "the input has type int32, the table utf8", "cast"},
		{"keys as texts", []string{"stage", table, of("texts", `[{"req_id": "7"}]`, nullable("req_id", text))}, "the input has type utf8, the table int64", "cast"},
		{"keys as floats", []string{"stage", table, of("floats", `[{"req_id": 7.0}]`, nullable("req_id", p.Float64))}, "the input has type float64, the table int64", "cast"},
		{"keys as small numbers", []string{"stage", table, of("small", `[{"req_id": 7}]`, nullable("req_id", p.Int16))}, "int16", "cast"},
		{"unsigned keys", []string{"stage", table, of("unsigned", `[{"req_id": 7}]`, nullable("req_id", p.Uint64))}, "uint64", "cast"},
		{"texts for long keys of a new table", []string{"stage", "features.fresh", of("texts-2", `[{"req_id": "7"}]`, nullable("req_id", text)), "--key", "req_id", "--like", "ml.impressions"}, "cannot be equal", "cast the column to"},
		{"a renamed column", []string{"stage", table, of("renamed", `[{"req_id": 7, "contry": "FR"}]`, id, nullable("contry", text))}, `no column "contry"`, "evolve"},
		{"a column in another case", []string{"stage", table, of("upper", `[{"req_id": 7, "Country": "FR"}]`, id, nullable("Country", text))}, `no column "Country"`, "country"},
		{"a new column in another case", []string{"stage", table, filepath.Join(l.dir, "upper.parquet"), "--evolve"}, "Country", "country"},
		{"two columns of a name", []string{"stage", table, raw("twice.csv", "req_id,country,country\n7,FR,FR\n")}, "country", ""},
		{"the index of a data frame", []string{"stage", table, of("index", `[{"req_id": 7, "__index_level_0__": 0}]`, id, nullable("__index_level_0__", p.Int64)), "--evolve"}, "__index_level_0__", "index"},
		{"no required column", []string{"stage", "features.named", of("lacking", `[{"country": "FR"}]`, country)}, "the table requires it", ""},
		{"nulls in a required column", []string{"stage", "features.named", of("nulls", `[{"req_id": null, "country": "FR"}]`, id, country)}, "req_id", ""},
		{"a key twice", []string{"stage", table, of("repeated", `[{"req_id": 7}, {"req_id": 7}]`, id)}, "dataset home", "--allow-duplicates"},
		{"a key that the table has", []string{"stage", table, of("known", `[{"req_id": 1, "country": "IT"}]`, id, country)}, "dataset home", "--allow-duplicates"},
		{"no training row", []string{"stage", table, l.good, "--only-keys-of", "home"}, "none of the 1 rows has a key", "compare the values of the key"},
		{"a milliseconds column", []string{"stage", table, of("millis", `[{"req_id": 7, "at": 0}]`, id, nullable("at", arrow.FixedWidthTypes.Timestamp_ms)), "--evolve"}, "at", "cast"},
		{"a date that is none", []string{"stage", "features.daily", raw("dates.csv", "req_id,day\n7,2026-02-30\n")}, "dates.csv, line 2", ""},
		{"a number out of range", []string{"stage", table, raw("range.csv", "req_id,country\n9223372036854775808,FR\n")}, "range.csv, line 2", ""},
		{"a line with too many fields", []string{"stage", table, raw("fields.csv", "req_id,country\n7,FR,x\n")}, "fields.csv", ""},
		{"half a file", []string{"stage", table, raw("half.parquet", string(whole[:len(whole)/2]))}, "half.parquet cannot be read as a Parquet file: its end is missing", ""},
		{"an empty file", []string{"stage", table, raw("empty.parquet", "")}, "empty.parquet cannot be read as a Parquet file: it is empty", ""},
		{"a text by another name", []string{"stage", table, raw("text.parquet", "req_id,country\n7,FR\n")}, "text.parquet cannot be read as a Parquet file: it has another format", ""},
		{"a file of ORC", []string{"stage", table, raw("rows.orc", "ORC and more bytes")}, "rows.orc has an unknown format", ""},
		{"a text as a key in JSON", []string{"stage", table, raw("rows.jsonl", `{"req_id": "seven"}`)}, "rows.jsonl", ""},
		{"files of two formats", []string{"stage", table, l.good, raw("good.csv", "req_id,country\n8,FR\n")}, "good.csv", ""},
		{"files of two schemas", []string{"stage", table, l.good, other}, "other.parquet", ""},
		{"a file twice", []string{"stage", table, l.good, l.good}, "twice", ""},
		{"no such file", []string{"stage", table, filepath.Join(l.dir, "god.parquet")}, "god.parquet", ""},
		{"an empty folder", []string{"stage", table, filepath.Join(l.dir, "empty")}, "empty", ""},
		{"a pattern without files", []string{"stage", table, filepath.Join(l.dir, "x-*.parquet")}, "x-*.parquet", ""},
		{"a folder of Delta", []string{"stage", table, filepath.Join(l.dir, "delta")}, "Delta", ""},
	}
}

// mistakesInStages are stages of a valid file.
func (l mistakeLake) mistakesInStages() []mistake {
	stage := func(table string, args ...string) []string { return append([]string{"stage", table, l.good}, args...) }
	return []mistake{
		{"a table misspelt", stage("features.histroy"), "features.histroy", "features.history"},
		{"a table without its namespace", stage("history"), "history", "namespace"},
		{"a namespace that may not be written to", stage("raw.history", "--key", "req_id", "--buckets", "2"), "raw.history may not be changed", "writes.namespaces"},
		{"a catalog that may not be written to", stage("read.features.history"), "may not be changed", "writes.namespaces"},
		{"a server that is not there", append(stage("features.history"), "--uri", "127.0.0.1:1"), "127.0.0.1:1", "penstock serve"},
		{"an address of the web", append(stage("features.history"), "--uri", "http://127.0.0.1:1"), "uri", "grpc://127.0.0.1:1"},
		{"a mode of Spark", stage("features.history", "--mode", "overwrite"), "--mode overwrite", "append or replace"},
		{"a replacement of buckets", stage("features.history", "--mode", "replace"), "only buckets", "partition the table by a day"},
		{"a replacement by fewer rows", []string{"stage", "features.daily", filepath.Join(l.dir, "one.parquet"), "--mode", "replace"}, "fewer than half", "--allow-shrink"},
		{"another partition", stage("features.history", "--partition", "country"), "partitioned by", "leave it out"},
		{"a partition of no transform", stage("features.fresh", "--key", "req_id", "--buckets", "2", "--partition", "dya(country)"), "dya(country)", ""},
		{"a partition of no column", stage("features.fresh", "--key", "req_id", "--buckets", "2", "--partition", "day(ts)"), `no column "ts"`, ""},
		{"a day of a text", stage("features.fresh", "--key", "req_id", "--buckets", "2", "--partition", "day(country)"), "country", ""},
		{"another number of buckets", stage("features.history", "--buckets", "8"), "partitioned by", "leave it out"},
		{"another order", stage("features.history", "--sort", "country"), "sorted by", "leave it out"},
		{"a key of no column", stage("features.fresh", "--key", "request", "--buckets", "2"), `no column "request"`, "req_id"},
		{"a new table without a key", stage("features.fresh"), "features.fresh", "name its key"},
		{"buckets of no table", stage("features.fresh", "--key", "req_id", "--like", "ml.impresions"), "ml.impresions", "ml.impressions"},
		{"two numbers of buckets", stage("features.fresh", "--key", "req_id", "--like", "ml.impressions", "--buckets", "2"), "give buckets or like, and not both", ""},
		{"keys of no dataset", stage("features.history", "--only-keys-of", "hom"), `"hom"`, "home"},
		{"a token of two lines", stage("features.history", "--token", "a\nb"), "stage.token: must not contain control characters", ""},
		{"the token of a change that was undone", stage("features.history", "--token", "undone"), "it was undone", "use a new token"},
		{"a token of the future", stage("features.history", "--token", "29990101T000000.000Z-x"), "29990101T000000.000Z-x", "correct the clock"},
		{"no file", []string{"stage", "features.history"}, "needs a table and at least one file", "--help"},
	}
}

// mistakesInChanges are commands that change what tables have.
func (l mistakeLake) mistakesInChanges() []mistake {
	return []mistake{
		{"a branch that is too old", []string{"publish", "features.history", "candidate"}, l.changes["later"], "new branch"},
		{"a branch of no name", []string{"publish", "features.history", "candidat"}, "candidat", "candidate"},
		{"a change of another program", []string{"undo", "features.named"}, "no change of Penstock", "the engine that made them"},
		{"a change before the last", []string{"undo", "features.history", "--from", "none", "--to", l.changes["history"]}, l.changes["later"], "undo these first"},
		{"a change that is none", []string{"undo", "features.history", "--from", "1", "--to", "2"}, "features.history", "snapshots are"},
		{"a column of no name", []string{"demote", "ml.impressions", "last", "--yes"}, "last", ""},
		{"an entry of no name", []string{"promote", "home", "histroy"}, "histroy", "history"},
		{"an entry that drops rows", []string{"promote", "home", "kept"}, "kept", ""},
		{"a dataset of no name", []string{"promote", "hme", "history"}, "hme", "home"},
		{"a snapshot that is gone", []string{"restore", "features.history", "--snapshot", "1"}, "snapshot 1", l.changes["later"]},
		{"a partition of no field", []string{"restore", "features.daily", "--snapshot", l.changes["daily"], "--partition", "dya=2026-10-01"}, "dya", "day"},
		{"a partition of no value", []string{"compact", "features.daily", "--partition", "day=yesterday"}, "yesterday", ""},
		{"a table of no name", []string{"compact", "features.dayly"}, "features.dayly", "features.daily"},
		{"an order that a dataset needs", []string{"compact", "features.daily", "--any-order"}, "dataset home takes the first or last", "leave any_order out"},
		{"orphans of no table", []string{"orphans", "features.dayly"}, "features.dayly", "features.daily"},
		{"an age that is too short", []string{"orphans", "features.daily", "--older-than", "1m", "--remove"}, "1m", ""},
	}
}

// Commands that write refuse mistakes with a reason and a remedy, before they write a byte. Afterward, all datasets read what they
// read before.
//
// spec: stage-34, stage-40
func TestMistakesOfWritersChangeNothing(t *testing.T) {
	l := newMistakeLake(t)
	l.parquetOf(t, "one.parquet", `[{"req_id": 1, "day": "2026-10-01"}]`, nullable("req_id", arrow.PrimitiveTypes.Int64), nullable("day", arrow.FixedWidthTypes.Date32))
	all := slices.Concat(l.mistakesInFiles(t), l.mistakesInStages(), l.mistakesInChanges())
	require.GreaterOrEqual(t, len(all), 40)
	rows, files := l.reads(t), filesBelow(t, l.dir)
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			args := m.args
			if !slices.Contains(args, "--uri") {
				args = append(slices.Clone(args), "--config", l.config)
			}
			got := run(t, args...)
			require.NotEqual(t, exitOK, got.code, got.stdout)
			require.Contains(t, got.stderr, m.says)
			require.Contains(t, got.stderr, m.todo, "what to do")
			require.Regexp(t, `→|did you mean|See: penstock`, got.stderr, "what to do")
			require.Equal(t, files, filesBelow(t, l.dir), "nothing is written")
		})
	}
	require.Equal(t, rows, l.reads(t))
}
