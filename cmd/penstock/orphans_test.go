package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/orphans"
)

// filesBelow returns the paths of all files below a folder, including hidden ones, relative to the
// folder.
func filesBelow(t *testing.T, folder string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(path, folder+"/"))
		}
		return err
	}))
	slices.Sort(out)
	return out
}

// stagedHistory returns a lake and the folder of its table features.history. The table has a
// snapshot on main, one on the branch candidate, and one that no ref reaches.
func stagedHistory(t *testing.T) (l lake, folder string) {
	t.Helper()
	l = stagingLake(t)
	a := l.parquetFile(t, "a.parquet", `[{"req_id": 1, "country": "CH"}, {"req_id": 2, "country": "DE"}]`)
	stage := func(args ...string) string {
		got := run(t, append([]string{"stage", "features.history", a, "--again", "--config", l.config}, args...)...)
		require.Zero(t, got.code, got.stderr)
		return regexp.MustCompile(`snapshot (\d+)`).FindStringSubmatch(got.stdout)[1]
	}
	first := stage("--key", "req_id", "--buckets", "2")
	stage("--branch", "candidate")
	second := stage()
	got := run(t, "undo", "features.history", "--from", first, "--to", second, "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	folder = filepath.Dir(filepath.Dir(globOne(t, l.dir+"/*/*/metadata/00000-*.metadata.json", l.dir+"/*/metadata/00000-*.metadata.json")))
	return l, folder
}

// globOne returns the first file that one of the patterns matches.
func globOne(t *testing.T, patterns ...string) string {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		if len(found) > 0 {
			return found[0]
		}
	}
	require.Fail(t, "no file matches", "%v", patterns)
	return ""
}

// age sets the modification time of all files below a folder to the given number of days ago.
func age(t *testing.T, folder string, days int) {
	t.Helper()
	at := time.Now().AddDate(0, 0, -days)
	for _, name := range filesBelow(t, folder) {
		require.NoError(t, os.Chtimes(filepath.Join(folder, name), at, at))
	}
}

// leave writes files with the content "left" below a folder.
func leave(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("left"), 0o600))
	}
}

// begin starts the upload of a file and leaves it unfinished.
func begin(t *testing.T, folder, name string) {
	t.Helper()
	upload, err := store.Local{}.Begin(t.Context(), filepath.Join(folder, name), nil)
	require.NoError(t, err)
	require.NoError(t, upload.Write(t.Context(), memory.NewBufferBytes([]byte("left"))))
}

// spec: orphan-1, orphan-2, orphan-3, orphan-6, orphan-7, orphan-15
func TestOrphanFilesOfATableAreRemoved(t *testing.T) {
	l, folder := stagedHistory(t)
	rows := func() string {
		got := run(t, "cat", "history", "--config", l.config, "--format", "jsonl", "--limit", "0")
		require.Zero(t, got.code, got.stderr)
		return got.stdout
	}
	search := func(args ...string) string {
		got := run(t, append([]string{"orphans", "features.history", "--config", l.config}, args...)...)
		require.Zero(t, got.code, got.stderr)
		require.Empty(t, got.stderr)
		return got.stdout
	}
	before, ours := rows(), "penstock-0123456789abcdef-"
	leave(t, folder, "data/part-0.parquet", "data/penstock-notes.parquet", "metadata/other-m0.avro", "version-hint.text")
	begin(t, folder, "data/part-1.parquet")
	kept := filesBelow(t, folder)
	left := []string{"data/b=1/" + ours + "1-00000.parquet", "data/" + ours + "1-00001.parquet", "metadata/" + ours + "m0.avro", "metadata/" + ours + "snap-1.avro"}
	leave(t, folder, left...)
	lost := "metadata/00007-" + tablecommit.MetadataID() + ".metadata.json"
	current, err := os.ReadFile(globOne(t, folder+"/metadata/00001-*.metadata.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, lost), current, 0o600))
	begin(t, folder, "data/"+ours+"2-00000.parquet")
	age(t, folder, 4)
	leave(t, folder, "data/"+ours+"young.parquet")

	all := filesBelow(t, folder)
	require.Contains(t, search("--older-than", "5d"), "table features.history: 0 orphan files, 0 B\n")
	listed := search()
	for _, name := range append(left, lost) {
		require.Contains(t, listed, "/"+name+", ")
	}
	require.Contains(t, listed, "/"+left[0]+", 4 B, 4d0h old\n")
	require.Contains(t, listed, "\nunfinished upload of ")
	require.Contains(t, listed, "table features.history: 6 orphan files, ")
	require.Contains(t, listed, "table features.history: 1 file that no snapshot names, and too young to judge: a write that runs may need what is younger than 3d0h\n")
	require.Equal(t, 8, strings.Count(listed, "\n"), listed)
	require.Equal(t, all, filesBelow(t, folder))

	require.Contains(t, search("--remove"), "table features.history: removed 6 orphan files, ")
	require.Equal(t, slices.Sorted(slices.Values(append(kept, "data/"+ours+"young.parquet"))), filesBelow(t, folder))
	require.Contains(t, search(), ": 0 orphan files, ")
	require.Equal(t, before, rows())
	require.Contains(t, search("--older-than", "1h"), ": 0 orphan files, ")
	got := run(t, "publish", "features.history", "candidate", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.NotEqual(t, before, rows())
}

// spec: orphan-14
func TestOrphanFilesAsJSON(t *testing.T) {
	l, folder := stagedHistory(t)
	leave(t, folder, "data/penstock-0123456789abcdef-1.parquet")
	begin(t, folder, "data/penstock-0123456789abcdef-2.parquet")
	age(t, folder, 4)
	for _, removed := range []int{0, 2} {
		args := []string{"orphans", "features.history", "--config", l.config, "--json"}
		if removed > 0 {
			args = append(args, "--remove")
		}
		got := run(t, args...)
		require.Zero(t, got.code, got.stderr)
		var out []orphans.TableOrphans
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		require.Len(t, out, 1)
		require.Equal(t, "features.history", out[0].Table)
		require.Equal(t, removed, out[0].Removed)
		require.Len(t, out[0].Files, 2)
		file, upload := out[0].Files[0], out[0].Files[1]
		require.True(t, strings.HasSuffix(file.Location, "/data/penstock-0123456789abcdef-1.parquet"))
		require.EqualValues(t, 4, *file.Bytes)
		require.WithinDuration(t, time.Now().AddDate(0, 0, -4), file.Modified, time.Hour)
		require.Empty(t, file.Upload)
		require.NotEmpty(t, upload.Upload)
	}
	got := run(t, "orphans", "features.history", "--config", l.config, "--json")
	require.Contains(t, got.stdout, `"files": []`)
}

// A manifest that cannot be read ends the command before anything is removed, including from tables
// named before.
//
// spec: orphan-5
func TestNothingIsRemovedAfterAFailure(t *testing.T) {
	l, folder := stagedHistory(t)
	a := l.parquetFile(t, "b.parquet", `[{"req_id": 1, "country": "CH"}]`)
	got := run(t, "stage", "features.embedding", a, "--key", "req_id", "--buckets", "2", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	other := filepath.Join(filepath.Dir(folder), strings.Replace(filepath.Base(folder), "history", "embedding", 1))
	leave(t, other, "data/penstock-0123456789abcdef-1.parquet")
	leave(t, folder, "data/penstock-0123456789abcdef-1.parquet")
	require.NoError(t, os.Truncate(globOne(t, folder+"/metadata/*-m0.avro"), 100))
	age(t, l.dir, 4)
	before := filesBelow(t, l.dir)
	got = run(t, "orphans", "features.embedding", "features.history", "--remove", "--config", l.config)
	require.Equal(t, exitFailure, got.code, got.stdout)
	require.Contains(t, got.stderr, "-m0.avro")
	require.Empty(t, got.stdout)
	require.Equal(t, before, filesBelow(t, l.dir))
	got = run(t, "orphans", "features.embedding", "--remove", "--config", l.config)
	require.Contains(t, got.stdout, "table features.embedding: removed 1 orphan file, 4 B\n")
}

// spec: orphan-8, orphan-9, orphan-10
func TestTablesThatAreNotSearched(t *testing.T) {
	l, folder := stagedHistory(t)
	a := l.parquetFile(t, "b.parquet", `[{"req_id": 1, "country": "CH"}]`)
	got := run(t, "stage", "features.embedding", a, "--key", "req_id", "--buckets", "2", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	other := filepath.Join(filepath.Dir(folder), strings.Replace(filepath.Base(folder), "history", "embedding", 1))
	leave(t, folder, "data/penstock-0123456789abcdef-1.parquet")
	from := globOne(t, other+"/metadata/00000-*.metadata.json")
	content, err := os.ReadFile(from) //nolint:gosec // a test's own folder
	require.NoError(t, err)
	copied := filepath.Join(folder, "metadata", filepath.Base(from))
	require.NoError(t, os.WriteFile(copied, withoutSnapshots(t, content), 0o600)) // no table of the catalog has this metadata
	age(t, folder, 4)
	got = run(t, "orphans", "features.history", "--config", l.config)
	require.Contains(t, got.stdout, filepath.Base(from))
	require.Contains(t, got.stdout, ": 2 orphan files, ")
	require.NoError(t, os.WriteFile(copied, content, 0o600)) //nolint:gosec // a test's own folder
	age(t, folder, 4)
	got = run(t, "orphans", "features.history", "--config", l.config)
	require.Equal(t, exitFailure, got.code, got.stdout)
	require.Contains(t, got.stderr, "has metadata of another table")
	require.Contains(t, got.stderr, filepath.Base(from))

	forbidden := l.file(t, "forbidden.yaml", "catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\", warehouse: \"file://"+l.dir+"\", writes: {namespaces: [ml]}}\n")
	got = run(t, "orphans", "features.history", "--config", forbidden)
	require.Equal(t, exitFailure, got.code, got.stdout)
	require.Contains(t, got.stderr, "writes.namespaces")

	c, done := openCatalogOf(t, l.dir)
	defer done()
	table, err := c.LoadTable(t.Context(), []string{"features", "embedding"})
	require.NoError(t, err)
	tx := table.NewTransaction()
	require.NoError(t, tx.SetProperties(map[string]string{"write.data.path": "file://" + l.dir + "/shared", "write.metadata.path": table.Location() + "/metadata"}))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	leave(t, l.dir+"/shared", "penstock-0123456789abcdef-1.parquet")
	age(t, l.dir, 4)
	got = run(t, "orphans", "features.embedding", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	require.Contains(t, got.stdout, ": 0 orphan files, ")
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	require.Contains(t, got.stderr, "/shared is not searched")
}

// withoutSnapshots returns the metadata of a table as it was before its first snapshot.
func withoutSnapshots(t *testing.T, metadata []byte) []byte {
	t.Helper()
	fields := map[string]any{}
	require.NoError(t, json.Unmarshal(metadata, &fields))
	for _, name := range []string{"snapshots", "snapshot-log", "refs", "current-snapshot-id"} {
		delete(fields, name)
	}
	out, err := json.Marshal(fields)
	require.NoError(t, err)
	return out
}

// spec: orphan-3
func TestMistakesInOrphans(t *testing.T) {
	l := stagingLake(t)
	for want, args := range map[string][]string{
		"needs a table\n":                    {"orphans"},
		"given twice":                        {"orphans", "features.a", "features.b", "features.a"},
		`"59m" is not an age of at least 1h`: {"orphans", "features.a", "--older-than", "59m"},
		`"0d" is not an age`:                 {"orphans", "features.a", "--older-than", "0d"},
		`"-3d" is not an age`:                {"orphans", "features.a", "--older-than", "-3d"},
		`"week" is not an age`:               {"orphans", "features.a", "--older-than", "week"},
		"give --config FILE":                 {"orphans", "features.a"},
	} {
		got := run(t, args...)
		require.Equal(t, exitUsage, got.code, want)
		require.Contains(t, got.stderr, want)
	}
	got := run(t, "orphans", "features.missing", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "features.missing")
	got = run(t, "orphans", "features", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "\"features\" has no namespace; write namespace.table, as `penstock tables` lists it")
}
