package icebergtest

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/tags"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
	"github.com/penstock/penstock/loader/dataset"
)

// Writer stands for another program that owns the catalog. It uses iceberg-go's SQL catalog.
type Writer struct {
	*icesql.Catalog
	Dir  string
	uri  string
	Lost atomic.Int64 // number of commits that failed; each left a file of iceberg-go
}

// NewWriter returns a writer whose catalog is in a new SQLite file.
func NewWriter(t *testing.T) *Writer {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	return &Writer{Catalog: c, Dir: dir, uri: "sqlite:///catalog.db"}
}

// NewPostgresWriter returns a writer whose catalog is in a new database of a PostgreSQL server.
func NewPostgresWriter(t *testing.T, s *postgrestest.Server) *Writer {
	t.Helper()
	uri := s.Database(t)
	db, err := sql.Open("pgx", strings.Replace(uri, "+psycopg2", "", 1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	dir := t.TempDir()
	c, err := icesql.NewCatalog("default", db, icesql.Postgres, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	return &Writer{Catalog: c, Dir: dir, uri: uri}
}

// Options returns the options for opening the writer's catalog.
func (w *Writer) Options() icebergcat.Options {
	return icebergcat.Options{Name: "default", Type: "sql", URI: w.uri, BaseDir: w.Dir, Store: store.Local{}, Clock: time.Now, AllowedPrefixes: Anywhere()}
}

// Open opens the catalog for reading.
func (w *Writer) Open(t *testing.T) *icebergcat.Catalog {
	t.Helper()
	c, err := icebergcat.Open(t.Context(), w.Options())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// OpenOver opens a catalog that uses the Swapper that wrap returns.
func OpenOver(t *testing.T, o icebergcat.Options, wrap func(locator.Swapper) locator.Swapper) *icebergcat.Catalog {
	t.Helper()
	s, err := icebergcat.OpenSource(t.Context(), o)
	require.NoError(t, err)
	swapper, ok := s.Locator.(locator.Swapper)
	require.True(t, ok)
	s.Locator = wrap(swapper)
	c, err := icebergcat.Over(s, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Ident returns the name of a table in parts.
func Ident(table string) icetable.Identifier { return strings.Split(table, ".") }

// Load loads a table.
func (w *Writer) Load(t *testing.T, table string) *icetable.Table {
	t.Helper()
	out, err := w.LoadTable(t.Context(), Ident(table))
	require.NoError(t, err)
	return out
}

// Create creates a table, and its namespace.
func (w *Writer) Create(t *testing.T, table string, schema *iceberg.Schema, options ...icecatalog.CreateTableOpt) *icetable.Table {
	t.Helper()
	namespace := Ident(table)[:1]
	exists, err := w.CheckNamespaceExists(t.Context(), namespace)
	require.NoError(t, err)
	if !exists {
		require.NoError(t, w.CreateNamespace(t.Context(), namespace, nil))
	}
	out, err := w.CreateTable(t.Context(), Ident(table), schema, options...)
	require.NoError(t, err)
	return out
}

// Update commits updates of a table.
func (w *Writer) Update(t *testing.T, table string, updates ...icetable.Update) {
	t.Helper()
	_, _, err := w.CommitTable(t.Context(), Ident(table), nil, updates)
	require.NoError(t, err)
}

// SetRef sets a branch or a tag.
func (w *Writer) SetRef(t *testing.T, table, name string, snapshot int64, kind icetable.RefType) {
	t.Helper()
	w.Update(t, table, icetable.NewSetSnapshotRefUpdate(name, snapshot, kind, 0, 0, 0))
}

// Alter replaces the columns of a table.
func (w *Writer) Alter(t *testing.T, table string, fields ...iceberg.NestedField) {
	t.Helper()
	w.Update(t, table, icetable.NewAddSchemaUpdate(iceberg.NewSchema(0, fields...)), icetable.NewSetCurrentSchemaUpdate(-1))
}

// Expire removes a snapshot.
func (w *Writer) Expire(t *testing.T, table string, snapshot int64) {
	t.Helper()
	w.Update(t, table, icetable.NewRemoveSnapshotsUpdate([]int64{snapshot}, false))
}

// Add commits data files that exist only in manifests.
func (w *Writer) Add(t *testing.T, table, branch string, files ...iceberg.DataFile) int64 {
	t.Helper()
	return w.Replace(t, table, branch, nil, files)
}

// Replace commits data files in place of other data files. All of them exist only in manifests.
func (w *Writer) Replace(t *testing.T, table, branch string, remove, add []iceberg.DataFile) int64 {
	t.Helper()
	if branch == "" {
		branch = icetable.MainBranch
	}
	tx := w.Load(t, table).NewTransactionOnBranch(branch)
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), remove, add, nil, icetable.WithoutAutoNameMapping()))
	out, err := tx.Commit(t.Context())
	require.NoError(t, err)
	return out.SnapshotByName(branch).SnapshotID
}

// rewrite commits in the same way as a compaction of iceberg-go.
func (w *Writer) rewrite(t *testing.T, table, branch string, remove, add []iceberg.DataFile) int64 {
	t.Helper()
	branch = cmp.Or(branch, icetable.MainBranch)
	tx := w.Load(t, table).NewTransactionOnBranch(branch)
	change := tx.NewRewrite(nil)
	for _, f := range remove {
		change.DeleteFile(f)
	}
	for _, f := range add {
		change.AddDataFile(f)
	}
	require.NoError(t, change.Commit(t.Context()))
	out, err := tx.Commit(t.Context())
	require.NoError(t, err)
	w.Update(t, table, icetable.NewRemovePropertiesUpdate([]string{icetable.DefaultNameMappingKey}))
	return out.SnapshotByName(branch).SnapshotID
}

// DataFile builds a Parquet data file with a partition spec. The parameter adjust may be nil.
func DataFile(t *testing.T, spec iceberg.PartitionSpec, location string, partition map[int]any, adjust func(*iceberg.DataFileBuilder)) iceberg.DataFile {
	t.Helper()
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, location, iceberg.ParquetFile, partition, nil, nil, 10, catalogtest.Bytes)
	require.NoError(t, err)
	if adjust != nil {
		adjust(b)
	}
	return b.Build()
}

func suiteFile(t *testing.T, spec iceberg.PartitionSpec, f catalogtest.File) iceberg.DataFile {
	t.Helper()
	partition := map[int]any{1000: nil, 1001: nil, 1002: nil}
	if v, ok := f.Partition[0].(int64); ok {
		partition[1000] = int32(v)
	}
	if v, ok := f.Partition[1].(int64); ok {
		partition[1001] = iceberg.Date(v)
	}
	if v, ok := f.Partition[2].(string); ok {
		partition[1002] = v
	}
	return DataFile(t, spec, f.Location, partition, func(b *iceberg.DataFileBuilder) {
		b.LowerBoundValues(encode(t, f.Lower)).UpperBoundValues(encode(t, f.Upper)).NullValueCounts(f.Nulls)
	})
}

// encode encodes bounds in the way that the Iceberg specification defines.
func encode(t *testing.T, bounds map[int]any) map[int][]byte {
	t.Helper()
	out := make(map[int][]byte, len(bounds))
	for id, v := range bounds {
		switch v := v.(type) {
		case int64:
			out[id] = binary.LittleEndian.AppendUint64(nil, uint64(v))
		case float64:
			out[id] = binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
		case string:
			out[id] = []byte(v)
		default:
			t.Fatalf("no encoding of a %T", v)
		}
	}
	return out
}

// Nested converts columns to iceberg-go's type.
func Nested(t *testing.T, fields []catalog.Field) []iceberg.NestedField {
	t.Helper()
	types := map[arrow.Type]iceberg.Type{
		arrow.INT32: iceberg.PrimitiveTypes.Int32, arrow.INT64: iceberg.PrimitiveTypes.Int64,
		arrow.FLOAT64: iceberg.PrimitiveTypes.Float64, arrow.STRING: iceberg.PrimitiveTypes.String,
		arrow.DATE32: iceberg.PrimitiveTypes.Date,
	}
	out := make([]iceberg.NestedField, len(fields))
	for i, f := range fields {
		require.Contains(t, types, f.Type.ID())
		out[i] = iceberg.NestedField{ID: f.ID, Name: f.Name, Type: types[f.Type.ID()], Required: f.Required}
	}
	return out
}

// SuiteSpec returns the partition spec of the conformance suite's tables.
func SuiteSpec() iceberg.PartitionSpec {
	return iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: catalogtest.Buckets}},
		iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1001, Name: "day", Transform: iceberg.IdentityTransform{}},
		iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1002, Name: "country", Transform: iceberg.IdentityTransform{}},
	)
}

// Rig returns the Rig with which the conformance suite tests a catalog. The writer makes the
// changes.
func (w *Writer) Rig(c catalog.Catalog) catalogtest.Rig {
	return catalogtest.Rig{
		Catalog: c,
		Create: func(t *testing.T, table string) {
			t.Helper()
			spec := SuiteSpec()
			w.Create(t, table, iceberg.NewSchema(0, Nested(t, catalogtest.Fields())...), icecatalog.WithPartitionSpec(&spec))
		},
		Unsequenced: func(t *testing.T, table string) {
			t.Helper()
			spec := SuiteSpec()
			w.Create(t, table, iceberg.NewSchema(0, Nested(t, catalogtest.Fields())...), icecatalog.WithPartitionSpec(&spec), FormatVersion("1"))
		},
		Sequenced: func(t *testing.T, table string) {
			t.Helper()
			w.Update(t, table, icetable.NewUpgradeFormatVersionUpdate(2))
		},
		Commit: func(t *testing.T, table string, c catalogtest.Commit) int64 {
			t.Helper()
			spec := w.Load(t, table).Spec()
			files := func(in []catalogtest.File) []iceberg.DataFile {
				out := make([]iceberg.DataFile, len(in))
				for i, f := range in {
					out[i] = suiteFile(t, spec, f)
				}
				return out
			}
			if c.Replace {
				return w.rewrite(t, table, c.Branch, files(c.Remove), files(c.Add))
			}
			return w.Replace(t, table, c.Branch, files(c.Remove), files(c.Add))
		},
		SetRef: func(t *testing.T, table string, r catalogtest.Ref) {
			t.Helper()
			kind := icetable.BranchRef
			if r.Tag {
				kind = icetable.TagRef
			}
			w.SetRef(t, table, r.Name, r.Snapshot, kind)
		},
		Alter: func(t *testing.T, table string, fields []catalog.Field) {
			t.Helper()
			w.Alter(t, table, Nested(t, fields)...)
		},
		Expire: w.Expire,
		Drop: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, w.DropTable(t.Context(), Ident(table)))
		},
	}
}

// Location returns the location of a data file.
func Location(name string) string { return fmt.Sprintf("/warehouse/%s.parquet", name) }

// OpenDB opens a catalog's SQLite file for writing, like its owner.
func OpenDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// Anywhere returns the allowed prefixes that include all local files. The data files of the tests'
// tables exist only in manifests.
func Anywhere() []string { return []string{"/"} }

// Commits makes a REST server commit to the writer's catalog. Iceberg-go parses each commit and
// checks its requirements.
func (w *Writer) Commits(t *testing.T, s *restcattest.Server) {
	s.Commit = func(namespace []string, name string, wanted []byte) (bool, error) {
		var commit struct {
			Requirements icetable.Requirements `json:"requirements"`
			Updates      icetable.Updates      `json:"updates"`
		}
		if err := json.Unmarshal(wanted, &commit); err != nil {
			return false, err
		}
		id := append(append([]string{}, namespace...), name)
		tbl, err := w.LoadTable(t.Context(), id)
		if err != nil {
			return false, err
		}
		for _, r := range commit.Requirements {
			if r.Validate(tbl.Metadata()) != nil {
				return false, nil
			}
		}
		_, _, err = w.CommitTable(t.Context(), id, commit.Requirements, commit.Updates)
		if err != nil {
			w.Lost.Add(1)
		}
		if errors.Is(err, icetable.ErrCommitFailed) {
			return false, nil // another commit came first
		}
		return err == nil, err
	}
}

// Pinned makes a table with the given number of snapshots, and pins the first snapshot.
func (w *Writer) Pinned(t *testing.T, c catalog.Catalog, snapshots int) *catalog.Table {
	t.Helper()
	spec := w.Create(t, Events, IDSchema()).Spec()
	var first int64
	for i := range snapshots {
		id := w.Add(t, Events, "", DataFile(t, spec, Location(string(rune('a'+i))), nil, nil))
		if i == 0 {
			first = id
		}
	}
	pinned, err := c.Table(t.Context(), Events, dataset.Ref{Snapshot: first})
	require.NoError(t, err)
	return pinned
}

// TagAges returns the maximum age of each of Penstock's tags, by snapshot.
func (w *Writer) TagAges(t *testing.T) map[int64]time.Duration {
	t.Helper()
	out := map[int64]time.Duration{}
	for name, ref := range w.Load(t, Events).Metadata().Refs() {
		if strings.HasPrefix(name, catalog.PinTagPrefix) {
			require.Equal(t, icetable.TagRef, ref.SnapshotRefType)
			require.NotNil(t, ref.MaxRefAgeMs, "it ends by itself")
			out[ref.SnapshotID] = time.Duration(*ref.MaxRefAgeMs) * time.Millisecond
		}
	}
	return out
}

// Committed returns the time of a snapshot.
func (w *Writer) Committed(t *testing.T, snapshot int64) time.Time {
	t.Helper()
	return time.UnixMilli(w.Load(t, Events).Metadata().SnapshotByID(snapshot).TimestampMs)
}

// Until returns the tags.Until with these times.
func Until(least, wanted time.Time) tags.Until {
	return tags.Until{Least: least, Wanted: wanted}
}

// Itoa returns an id as text.
func Itoa(id int64) string { return string(Must(json.Marshal(id))) }

// Must returns v. It panics if there is an error, which the caller knows to be impossible.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Forgetful is a store that accepts files but loses them: of each file, it keeps only the first
// Keep bytes, or nothing if Keep is negative.
type Forgetful struct {
	store.Local
	Keep int
}

// Create implements store.Writer.
func (f Forgetful) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if f.Keep < 0 {
		return nil
	}
	return f.Local.Create(ctx, location, memory.NewBufferBytes(content.Bytes()[:min(f.Keep, content.Len())]))
}

// Tables returns the function with which a REST server looks up the writer's tables.
func (w *Writer) Tables(t *testing.T) restcattest.Tables {
	return func(namespace []string, name string) (restcattest.Table, bool) {
		tbl, err := w.LoadTable(t.Context(), append(append([]string{}, namespace...), name))
		if err != nil {
			return restcattest.Table{}, false
		}
		text, err := os.ReadFile(Local(t, tbl.MetadataLocation()))
		require.NoError(t, err)
		return restcattest.Table{Location: tbl.MetadataLocation(), Metadata: text}, true
	}
}

// Serve starts a REST server that serves the writer's catalog.
func (w *Writer) Serve(t *testing.T) *restcattest.Server {
	t.Helper()
	s := restcattest.Start(t)
	s.Tables, s.Names = w.Tables(t), []string{Events}
	return s
}

// OpenREST opens the catalog of a REST server. The parameter change may be nil.
func OpenREST(t *testing.T, s *restcattest.Server, change func(*icebergcat.Options)) *icebergcat.Catalog {
	t.Helper()
	o := icebergcat.Options{Name: "lake", Type: "rest", URI: s.URL, Store: store.Local{}, AllowedPrefixes: Anywhere()}
	if change != nil {
		change(&o)
	}
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
