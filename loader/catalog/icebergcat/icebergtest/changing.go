package icebergtest

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

// Changing is a catalog through which tests change tables, together with the Writer that owns the
// catalog.
type Changing struct {
	*Writer
	Tables *icebergcat.Catalog
	// Another opens the catalog once more, like another process. The function change may change the
	// options; it may be nil.
	Another func(t *testing.T, change func(*icebergcat.Options)) *icebergcat.Catalog
	Server  *restcattest.Server // nil for databases
}

// Allow allows writes to the tables of a test.
func Allow(o *icebergcat.Options) {
	o.WriteNamespaces, o.Clock, o.Warehouse = []string{"ml"}, time.Now, "file://"+o.BaseDir
}

// Changes opens the writer's catalog so that tests can change its tables.
func (w *Writer) Changes(t *testing.T) *Changing {
	t.Helper()
	out := &Changing{Writer: w}
	out.Another = func(t *testing.T, change func(*icebergcat.Options)) *icebergcat.Catalog {
		t.Helper()
		o := w.Options()
		Allow(&o)
		if change != nil {
			change(&o)
		}
		c, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	out.Tables = out.Another(t, nil)
	return out
}

// ChangesByREST opens the writer's catalog through a REST server, so that tests can change its
// tables.
func (w *Writer) ChangesByREST(t *testing.T) *Changing {
	t.Helper()
	s := w.Serve(t)
	w.Commits(t, s)
	w.creates(t, s)
	out := &Changing{Writer: w, Server: s}
	out.Another = func(t *testing.T, change func(*icebergcat.Options)) *icebergcat.Catalog {
		t.Helper()
		return OpenREST(t, s, func(o *icebergcat.Options) {
			o.WriteNamespaces, o.Clock = []string{"ml"}, time.Now
			if change != nil {
				change(o)
			}
		})
	}
	out.Tables = out.Another(t, nil)
	return out
}

// creates makes a REST server create and drop tables in the writer's catalog, with iceberg-go.
func (w *Writer) creates(t *testing.T, s *restcattest.Server) {
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
	s.Drop = func(namespace []string, name string) (bool, error) {
		err := w.DropTable(t.Context(), append(append([]string{}, namespace...), name))
		if errors.Is(err, icecatalog.ErrNoSuchTable) {
			return false, nil
		}
		return err == nil, err
	}
}

// EachChanging runs a test with every type of catalog that can be changed.
func EachChanging(t *testing.T, test func(t *testing.T, c *Changing)) {
	t.Run("sqlite", func(t *testing.T) { test(t, NewWriter(t).Changes(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, NewPostgresWriter(t, postgrestest.Start(t)).Changes(t)) })
	t.Run("rest", func(t *testing.T) { test(t, NewWriter(t).ChangesByREST(t)) })
}

// Bucketed makes the table Events, partitioned by bucket[4] of id.
func (c *Changing) Bucketed(t *testing.T, version string) {
	t.Helper()
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}})
	c.Create(t, Events, IDSchema(), icecatalog.WithPartitionSpec(&spec), FormatVersion(version))
}

// File returns a data file to add. It exists only in manifests, not in storage.
func (c *Changing) File(name string, bucket int64) commit.DataFile {
	return commit.DataFile{
		Location: Location(name), Partition: []any{bucket}, Rows: 10, Bytes: 1000, Splits: []int64{4},
		ColumnMetrics: commit.ColumnMetrics{
			ColumnBytes: map[int]int64{1: 100}, Values: map[int]int64{1: 10}, Nulls: map[int]int64{1: 0},
			Lower: map[int][]byte{1: {1, 0, 0, 0, 0, 0, 0, 0}}, Upper: map[int][]byte{1: {9, 0, 0, 0, 0, 0, 0, 0}},
		},
	}
}

// Token returns a token with the current time.
func Token(name string) string { return commit.NewToken(time.Now(), name) }

// Append commits data files of bucket 1.
func (c *Changing) Append(t *testing.T, name string, files ...string) commit.Committed {
	t.Helper()
	change := commit.Change{Table: Events, Token: Token(name)}
	for _, f := range files {
		change.Add = append(change.Add, c.File(f, 1))
	}
	out, err := c.Tables.Commit(t.Context(), change)
	require.NoError(t, err)
	return out
}

// Files returns the names of the live files of a branch, as a newly opened catalog lists them.
func (c *Changing) Files(t *testing.T, branch string) []string {
	t.Helper()
	reader := c.Another(t, func(o *icebergcat.Options) { o.WriteNamespaces = nil })
	pinned, err := reader.Table(t.Context(), Events, dataset.Ref{Name: branch})
	require.NoError(t, err)
	files, err := reader.Files(t.Context(), pinned, []int{1}, []int{1})
	require.NoError(t, err)
	return NamesOf(files)
}

// NamesOf returns the names of files, sorted.
func NamesOf(files []catalog.File) []string {
	out := []string{}
	for _, f := range files {
		out = append(out, NameOf(f.Location))
	}
	slices.Sort(out)
	return out
}

// NameOf returns the name of the file at a location, without .parquet.
func NameOf(location string) string { return strings.TrimSuffix(filepath.Base(location), ".parquet") }

// Orphans returns the files in the table's metadata folder that the table does not refer to.
func (c *Changing) Orphans(t *testing.T) []string {
	t.Helper()
	tbl := c.Load(t, Events)
	used := map[string]bool{Local(t, tbl.MetadataLocation()): true}
	for entry := range tbl.Metadata().PreviousFiles() {
		used[Local(t, entry.MetadataFile)] = true
	}
	for f := range tbl.Metadata().Statistics() {
		used[Local(t, f.StatisticsPath)] = true
	}
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	for _, s := range tbl.Metadata().Snapshots() {
		used[Local(t, s.ManifestList)] = true
		manifests, err := s.Manifests(fs)
		require.NoError(t, err)
		for _, m := range manifests {
			used[Local(t, m.FilePath())] = true
		}
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(Local(t, tbl.MetadataLocation())), "*"))
	require.NoError(t, err)
	return slices.DeleteFunc(found, func(name string) bool { return used[name] })
}

// Drop drops the table, with its files.
func (c *Changing) Drop(t *testing.T) {
	t.Helper()
	folder := Local(t, c.Load(t, Events).Location())
	require.NoError(t, c.DropTable(t.Context(), Ident(Events)))
	require.NoError(t, os.RemoveAll(folder))
}

// BytesOf returns the content of all files below the writer's folder, except the catalog's
// database, by path.
func (w *Writer) BytesOf(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(w.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "catalog.db") {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // a test's own folder
		out[path] = string(content)
		return err
	}))
	return out
}

// IsKind checks the kind of an error, that its text contains text, and that it has a remedy.
func IsKind(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
	require.ErrorContains(t, err, text)
	require.NotEmpty(t, fault.As(err).Remedy, "%v", err)
}

// Numbered returns n names that begin with prefix and end with a number.
func Numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}

// Replacement returns a change that replaces files.
func (c *Changing) Replacement(name string, base int64, remove []string, add ...string) commit.Change {
	change := commit.Change{Table: Events, Token: Token(name), Mode: commit.Rewrite, Base: base}
	if len(remove) != len(add) { // each file has the same number of rows
		change.Mode = commit.Overwrite
	}
	for _, f := range remove {
		change.Remove = append(change.Remove, Location(f))
	}
	for _, f := range add {
		change.Add = append(change.Add, c.File(f, 1))
	}
	return change
}

// Deletes commits equality deletes of a partition.
func (c *Changing) Deletes(t *testing.T, partition map[int]any) {
	t.Helper()
	tbl := c.Load(t, Events)
	b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentEqDeletes, Location(Token("deletes")), iceberg.ParquetFile, partition, nil, nil, 1, 100)
	require.NoError(t, err)
	tx := tbl.NewTransaction()
	require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.EqualityFieldIDs([]int{1}).Build()).Commit(t.Context()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}
