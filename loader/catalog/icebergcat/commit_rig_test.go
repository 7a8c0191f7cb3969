package icebergcat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
	"github.com/penstock/penstock/loader/dataset"
)

// changing is a catalog whose tables are changed, and its owner.
type changing struct {
	*writer
	tables *icebergcat.Catalog
	// another opens the catalog once more, as another process would; change may be nil.
	another func(t *testing.T, change func(*icebergcat.Options)) *icebergcat.Catalog
	server  *restcattest.Server // nil for databases
}

// allow allows writes to the tables of a test.
func allow(o *icebergcat.Options) {
	o.WriteNamespaces, o.Clock, o.Warehouse = []string{"ml"}, time.Now, "file://"+o.BaseDir
}

// changes opens a writer's catalog for changes.
func (w *writer) changes(t *testing.T) *changing {
	t.Helper()
	out := &changing{writer: w}
	out.another = func(t *testing.T, change func(*icebergcat.Options)) *icebergcat.Catalog {
		t.Helper()
		o := w.options()
		allow(&o)
		if change != nil {
			change(&o)
		}
		c, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	out.tables = out.another(t, nil)
	return out
}

// changesByREST opens a writer's catalog for changes through a REST server.
func (w *writer) changesByREST(t *testing.T) *changing {
	t.Helper()
	s := w.serve(t)
	w.commits(t, s)
	w.creates(t, s)
	out := &changing{writer: w, server: s}
	out.another = func(t *testing.T, change func(*icebergcat.Options)) *icebergcat.Catalog {
		t.Helper()
		return openREST(t, s, func(o *icebergcat.Options) {
			o.WriteNamespaces, o.Clock = []string{"ml"}, time.Now
			if change != nil {
				change(o)
			}
		})
	}
	out.tables = out.another(t, nil)
	return out
}

// creates has a REST server create tables as iceberg-go does.
func (w *writer) creates(t *testing.T, s *restcattest.Server) {
	t.Helper()
	s.Create = func(namespace []string, wanted []byte) (string, bool, error) {
		var request struct {
			Name       string                 `json:"name"`
			Schema     *iceberg.Schema        `json:"schema"`
			Spec       *iceberg.PartitionSpec `json:"partition-spec"`
			Order      *icetable.SortOrder    `json:"write-order"`
			Properties iceberg.Properties     `json:"properties"`
		}
		if err := json.Unmarshal(wanted, &request); err != nil {
			return "", false, err
		}
		options := []icecatalog.CreateTableOpt{icecatalog.WithProperties(request.Properties)}
		if request.Spec != nil {
			options = append(options, icecatalog.WithPartitionSpec(request.Spec))
		}
		if request.Order != nil {
			options = append(options, icecatalog.WithSortOrder(*request.Order))
		}
		_, err := w.CreateTable(t.Context(), append(append([]string{}, namespace...), request.Name), request.Schema, options...)
		if errors.Is(err, icecatalog.ErrTableAlreadyExists) {
			return "", false, nil
		}
		return request.Name, err == nil, err
	}
}

// eachChanging runs a test on every kind of catalog that takes changes.
func eachChanging(t *testing.T, test func(t *testing.T, c *changing)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newWriter(t).changes(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, newPostgresWriter(t, postgrestest.Start(t)).changes(t)) })
	t.Run("rest", func(t *testing.T) { test(t, newWriter(t).changesByREST(t)) })
}

// bucketed makes a table in two partition specs: unpartitioned, then bucketed by id.
func (c *changing) bucketed(t *testing.T, version string) {
	t.Helper()
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}})
	c.create(t, events, idSchema(), icecatalog.WithPartitionSpec(&spec), formatVersion(version))
}

// file is an added file that exists in manifests only.
func (c *changing) file(name string, bucket int64) commit.DataFile {
	return commit.DataFile{
		Location: location(name), Partition: []any{bucket}, Rows: 10, Bytes: 1000, Splits: []int64{4},
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: map[int]int64{1: 100}, Values: map[int]int64{1: 10}, Nulls: map[int]int64{1: 0},
			Lower: map[int][]byte{1: {1, 0, 0, 0, 0, 0, 0, 0}}, Upper: map[int][]byte{1: {9, 0, 0, 0, 0, 0, 0, 0}},
		},
	}
}

// token is a token of now.
func token(name string) string { return commit.NewToken(time.Now(), name) }

// append commits files of bucket 1.
func (c *changing) append(t *testing.T, name string, files ...string) commit.Committed {
	t.Helper()
	change := commit.Change{Table: events, Token: token(name)}
	for _, f := range files {
		change.Add = append(change.Add, c.file(f, 1))
	}
	out, err := c.tables.Commit(t.Context(), change)
	require.NoError(t, err)
	return out
}

// files are the names of the live files of a branch, as a fresh reader lists them.
func (c *changing) files(t *testing.T, branch string) []string {
	t.Helper()
	reader := c.another(t, func(o *icebergcat.Options) { o.WriteNamespaces = nil })
	pinned, err := reader.Table(t.Context(), events, dataset.Ref{Name: branch})
	require.NoError(t, err)
	files, err := reader.Files(t.Context(), pinned, []int{1}, []int{1})
	require.NoError(t, err)
	return namesOf(files)
}

func namesOf(files []catalog.File) []string {
	out := []string{}
	for _, f := range files {
		out = append(out, nameOf(f.Location))
	}
	slices.Sort(out)
	return out
}

func nameOf(location string) string { return strings.TrimSuffix(filepath.Base(location), ".parquet") }

// leftovers are the files in the table's folder for metadata that the table does not refer to.
func (c *changing) leftovers(t *testing.T) []string {
	t.Helper()
	tbl := c.load(t, events)
	used := map[string]bool{local(t, tbl.MetadataLocation()): true}
	for entry := range tbl.Metadata().PreviousFiles() {
		used[local(t, entry.MetadataFile)] = true
	}
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	for _, s := range tbl.Metadata().Snapshots() {
		used[local(t, s.ManifestList)] = true
		manifests, err := s.Manifests(fs)
		require.NoError(t, err)
		for _, m := range manifests {
			used[local(t, m.FilePath())] = true
		}
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(local(t, tbl.MetadataLocation())), "*"))
	require.NoError(t, err)
	return slices.DeleteFunc(found, func(name string) bool { return used[name] })
}

// drop drops the table, with its files.
func (c *changing) drop(t *testing.T) {
	t.Helper()
	folder := local(t, c.load(t, events).Location())
	require.NoError(t, c.DropTable(t.Context(), ident(events)))
	require.NoError(t, os.RemoveAll(folder))
}

// bytesOf returns the content of all files below the writer's folder, by name.
func (w *writer) bytesOf(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "catalog.db") {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // a test's own folder
		out[path] = string(content)
		return err
	}))
	return out
}

// isKind checks the kind of an error and that it names the table.
func isKind(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
	require.ErrorContains(t, err, text)
	require.NotEmpty(t, fault.As(err).Remedy, "%v", err)
}

// numbered returns n names.
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}
