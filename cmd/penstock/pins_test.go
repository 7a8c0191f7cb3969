package main

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// pinning returns a lake whose catalog tags the snapshots that streams read.
func pinning(t *testing.T) lake {
	t.Helper()
	l := newLake(t, t.TempDir())
	text := string(must(os.ReadFile(l.config)))
	with := strings.Replace(text, `"sqlite:///catalog.db"}`, `"sqlite:///catalog.db", pin_tags: {keep: 7d}}`, 1)
	require.NotEqual(t, text, with)
	l.file(t, "penstock.yaml", with)
	return l
}

// content returns the digest of every file in the lake's folder, by path.
func (l lake) content(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		sum := sha256.Sum256(text)
		out[path] = hex.EncodeToString(sum[:])
		return err
	}))
	return out
}

// tags returns the maximum ages of the tags that Penstock set on a table, by snapshot id.
func (l lake) tags(t *testing.T, table string) map[int64]time.Duration {
	t.Helper()
	c, done := openCatalogOf(t, l.dir)
	defer done()
	loaded, err := c.LoadTable(t.Context(), strings.Split(table, "."))
	require.NoError(t, err)
	out := map[int64]time.Duration{}
	for name, ref := range loaded.Metadata().Refs() {
		if strings.HasPrefix(name, "penstock-") {
			require.Equal(t, icetable.TagRef, ref.SnapshotRefType)
			out[ref.SnapshotID] = time.Duration(*ref.MaxRefAgeMs) * time.Millisecond
		}
	}
	return out
}

// Without pin_tags, no command changes a byte of the catalog or the warehouse.
//
// spec: pin-10
func TestNothingIsWrittenWithoutPinTags(t *testing.T) {
	l := newLake(t, t.TempDir())
	before := l.content(t)
	c := start(t, "--config", l.config)
	for _, args := range [][]string{{"datasets"}, {"explain", "home"}, {"cat", "home"}, {"verify", "home"}} {
		got := run(t, append(args, "--uri", c.uri())...)
		require.Contains(t, []int{exitOK, exitFailure}, got.code, got.stderr) // one dataset cannot be read, and verify has findings
		require.NotContains(t, got.stderr, "unknown")
	}
	c.signal(t)
	_, _ = c.wait(t)
	require.Equal(t, before, l.content(t))
}

// Only streams commit tags, once per table. Tags do not change plans.
//
// spec: pin-5, pin-6, pin-8, access-20
func TestStreamsTagWhatTheyRead(t *testing.T) {
	l := pinning(t)
	before := l.content(t)
	c := start(t, "--config", l.config, "--cache-memory", "0") // explain would list cached columns
	explained := run(t, "explain", "home", "--uri", c.uri())
	require.Zero(t, explained.code, explained.stderr)
	run(t, "datasets", "--uri", c.uri())
	run(t, "verify", "home", "--uri", c.uri())
	c.stderr.find(t, "dataset cannot be read") // the server has planned all datasets
	require.Equal(t, before, l.content(t), "commands that do not read write nothing")

	first := run(t, "cat", "home", "--uri", c.uri())
	require.Zero(t, first.code, first.stderr)
	week := 7 * 24 * time.Hour
	for _, table := range []string{"ml.impressions", "features.history"} {
		tags := l.tags(t, table)
		require.Len(t, tags, 1, table)
		for _, age := range tags {
			require.GreaterOrEqual(t, age, week)
			require.Less(t, age, week+time.Hour, "its snapshot is new")
		}
	}
	require.Empty(t, l.tags(t, "ml.large"), "no stream reads it")
	tagged := l.content(t)
	own := run(t, "cat", "--query", `{"dataset": {"training": {"table": "ml.large"}}, "columns": ["request_id"]}`, "--uri", c.uri())
	require.Zero(t, own.code, own.stderr)
	require.Equal(t, tagged, l.content(t), "a dataset of a client sets no tags")
	again := run(t, "cat", "home", "--uri", c.uri())
	require.Equal(t, first.stdout, again.stdout)
	require.Equal(t, tagged, l.content(t), "one commit is enough")

	id := regexp.MustCompile(`plan [0-9a-f]{8,}`)
	require.NotEmpty(t, id.FindString(explained.stdout), explained.stdout)
	now := run(t, "explain", "home", "--uri", c.uri())
	require.Equal(t, id.FindString(explained.stdout), id.FindString(now.stdout), "the plan is the same")
	c.signal(t)
	code, _ := c.wait(t)
	require.Zero(t, code)

	// A command that reads in process finds the tags and does not change them.
	inside := run(t, "cat", "home", "--config", l.config)
	require.Zero(t, inside.code, inside.stderr)
	require.Equal(t, first.stdout, inside.stdout)
	require.Equal(t, tagged, l.content(t))
}

// A command that reads rows in process sets the same tags as a server. Other commands write
// nothing.
//
// spec: pin-5
func TestCommandsTagWhatTheyReadInProcess(t *testing.T) {
	l := pinning(t)
	before := l.content(t)
	for _, args := range [][]string{{"datasets"}, {"datasets", "home"}, {"explain", "home"}, {"verify", "home"}} {
		run(t, append(args, "--config", l.config)...)
	}
	require.Equal(t, before, l.content(t), "commands that do not read write nothing")
	got := run(t, "cat", "home", "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	for _, table := range []string{"ml.impressions", "features.history"} {
		require.Len(t, l.tags(t, table), 1, table)
	}
	require.Empty(t, l.tags(t, "ml.large"), "no stream reads it")
}

// If the catalog refuses the tag, the query fails before its first row, with a remedy.
//
// spec: pin-9
func TestRefusedTagsFailTheQuery(t *testing.T) {
	l := pinning(t)
	_, done := openCatalogOf(t, l.dir)
	done()
	execute(t, l, `CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'no'); END`)
	before := l.content(t)
	got := run(t, "cat", "home", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "commit to table")
	require.Contains(t, got.stderr, "leave pin_tags and writes out")
	for path := range l.content(t) {
		require.Contains(t, before, path, "no file is left behind")
	}
	require.Zero(t, run(t, "explain", "home", "--config", l.config).code)
}

// A REST catalog with read-only access refuses tags the same way.
func TestReadOnlyRESTCatalogRefusesTags(t *testing.T) {
	l := newLake(t, t.TempDir())
	s := l.serveREST(t)
	text := strings.SplitN(string(must(os.ReadFile(l.config))), "datasets:", 2)[1]
	config := l.file(t, "rest.yaml", "catalogs: {default: {uri: "+s.URL+", warehouse: prod, token: given, pin_tags: {keep: 7d}}}\ndatasets:"+text)
	s.Change(func(s *restcattest.Server) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusForbidden)
			}
			return r.Method == http.MethodPost
		}
	})
	got := run(t, "cat", "home", "--config", config)
	require.Equal(t, exitFailure, got.code)
	require.Empty(t, got.stdout)
	require.Contains(t, got.stderr, "allow the identity of the catalog's token or credential to commit to its tables, or leave pin_tags out")
}

// Commands refuse pin_tags for a catalog of type directory, which cannot commit tags.
func TestFoldersRefusePinTags(t *testing.T) {
	l := readLake(t)
	folder := lake{dir: t.TempDir()}
	config := folder.file(t, "penstock.yaml", "catalogs: {default: {type: directory, warehouse: "+l.dir+", pin_tags: {keep: 7d}}}")
	got := run(t, "datasets", "--config", config)
	require.NotZero(t, got.code)
	require.Contains(t, got.stderr, "catalog default: pin_tags: a catalog of type directory cannot commit tags")
}

// execute runs a statement on the lake's catalog database.
func execute(t *testing.T, l lake, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(l.dir, "catalog.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
