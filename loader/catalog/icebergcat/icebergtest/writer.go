package icebergtest

import (
	"cmp"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
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

// Itoa returns an id as text.
func Itoa(id int64) string { return string(Must(json.Marshal(id))) }

// Must returns v. It panics if there is an error, which the caller knows to be impossible.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
