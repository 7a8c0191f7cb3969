package icebergcat_test

import (
	"cmp"
	"database/sql"
	"encoding/binary"
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
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writer is another program that owns the catalog: iceberg-go's own.
type writer struct {
	*icesql.Catalog
	dir  string
	uri  string
	lost atomic.Int64 // commits, each of which leaves a file of iceberg-go's
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	c, err := icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	return &writer{Catalog: c, dir: dir, uri: "sqlite:///catalog.db"}
}

// newPostgresWriter is a writer whose catalog lies in a database of its own.
func newPostgresWriter(t *testing.T, s *postgrestest.Server) *writer {
	t.Helper()
	uri := s.Database(t)
	db, err := sql.Open("pgx", strings.Replace(uri, "+psycopg2", "", 1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	dir := t.TempDir()
	c, err := icesql.NewCatalog("default", db, icesql.Postgres, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	return &writer{Catalog: c, dir: dir, uri: uri}
}

func (w *writer) options() icebergcat.Options {
	return icebergcat.Options{Name: "default", Type: "sql", URI: w.uri, BaseDir: w.dir, Store: store.Local{}, Clock: time.Now, AllowedPrefixes: anywhere()}
}

// open opens the catalog for reading.
func (w *writer) open(t *testing.T) *icebergcat.Catalog {
	t.Helper()
	c, err := icebergcat.Open(t.Context(), w.options())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// openOver opens a catalog whose tables are located by what wrap returns.
func openOver(t *testing.T, o icebergcat.Options, wrap func(locator.Swapper) locator.Swapper) *icebergcat.Catalog {
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

func ident(table string) icetable.Identifier { return strings.Split(table, ".") }

func (w *writer) load(t *testing.T, table string) *icetable.Table {
	t.Helper()
	out, err := w.LoadTable(t.Context(), ident(table))
	require.NoError(t, err)
	return out
}

func (w *writer) create(t *testing.T, table string, schema *iceberg.Schema, options ...icecatalog.CreateTableOpt) *icetable.Table {
	t.Helper()
	namespace := ident(table)[:1]
	exists, err := w.CheckNamespaceExists(t.Context(), namespace)
	require.NoError(t, err)
	if !exists {
		require.NoError(t, w.CreateNamespace(t.Context(), namespace, nil))
	}
	out, err := w.CreateTable(t.Context(), ident(table), schema, options...)
	require.NoError(t, err)
	return out
}

func (w *writer) update(t *testing.T, table string, updates ...icetable.Update) {
	t.Helper()
	_, _, err := w.CommitTable(t.Context(), ident(table), nil, updates)
	require.NoError(t, err)
}

func (w *writer) setRef(t *testing.T, table, name string, snapshot int64, kind icetable.RefType) {
	t.Helper()
	w.update(t, table, icetable.NewSetSnapshotRefUpdate(name, snapshot, kind, 0, 0, 0))
}

func (w *writer) alter(t *testing.T, table string, fields ...iceberg.NestedField) {
	t.Helper()
	w.update(t, table, icetable.NewAddSchemaUpdate(iceberg.NewSchema(0, fields...)), icetable.NewSetCurrentSchemaUpdate(-1))
}

func (w *writer) expire(t *testing.T, table string, snapshot int64) {
	t.Helper()
	w.update(t, table, icetable.NewRemoveSnapshotsUpdate([]int64{snapshot}, false))
}

// add commits data files that exist in the manifests only.
func (w *writer) add(t *testing.T, table, branch string, files ...iceberg.DataFile) int64 {
	t.Helper()
	return w.replace(t, table, branch, nil, files)
}

func (w *writer) replace(t *testing.T, table, branch string, remove, add []iceberg.DataFile) int64 {
	t.Helper()
	if branch == "" {
		branch = icetable.MainBranch
	}
	tx := w.load(t, table).NewTransactionOnBranch(branch)
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), remove, add, nil, icetable.WithoutAutoNameMapping()))
	out, err := tx.Commit(t.Context())
	require.NoError(t, err)
	return out.SnapshotByName(branch).SnapshotID
}

// rewrite commits as a compaction does.
func (w *writer) rewrite(t *testing.T, table, branch string, remove, add []iceberg.DataFile) int64 {
	t.Helper()
	branch = cmp.Or(branch, icetable.MainBranch)
	tx := w.load(t, table).NewTransactionOnBranch(branch)
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
	w.update(t, table, icetable.NewRemovePropertiesUpdate([]string{icetable.DefaultNameMappingKey}))
	return out.SnapshotByName(branch).SnapshotID
}

// dataFile builds a Parquet data file of a spec; adjust may be nil.
func dataFile(t *testing.T, spec iceberg.PartitionSpec, location string, partition map[int]any, adjust func(*iceberg.DataFileBuilder)) iceberg.DataFile {
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
	return dataFile(t, spec, f.Location, partition, func(b *iceberg.DataFileBuilder) {
		b.LowerBoundValues(encode(t, f.Lower)).UpperBoundValues(encode(t, f.Upper)).NullValueCounts(f.Nulls)
	})
}

// encode writes bounds as the Iceberg specification has them.
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

func nested(t *testing.T, fields []catalog.Field) []iceberg.NestedField {
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

func suiteSpec() iceberg.PartitionSpec {
	return iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: catalogtest.Buckets}},
		iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1001, Name: "day", Transform: iceberg.IdentityTransform{}},
		iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1002, Name: "country", Transform: iceberg.IdentityTransform{}},
	)
}

// rig is the conformance suite's view of a writer and a reader of one file.
func rig(t *testing.T) catalogtest.Rig {
	t.Helper()
	w := newWriter(t)
	return w.rig(w.open(t))
}

func (w *writer) rig(c catalog.Catalog) catalogtest.Rig {
	return catalogtest.Rig{
		Catalog: c,
		Create: func(t *testing.T, table string) {
			t.Helper()
			spec := suiteSpec()
			w.create(t, table, iceberg.NewSchema(0, nested(t, catalogtest.Fields())...), icecatalog.WithPartitionSpec(&spec))
		},
		Unsequenced: func(t *testing.T, table string) {
			t.Helper()
			spec := suiteSpec()
			w.create(t, table, iceberg.NewSchema(0, nested(t, catalogtest.Fields())...), icecatalog.WithPartitionSpec(&spec), formatVersion("1"))
		},
		Sequenced: func(t *testing.T, table string) {
			t.Helper()
			w.update(t, table, icetable.NewUpgradeFormatVersionUpdate(2))
		},
		Commit: func(t *testing.T, table string, c catalogtest.Commit) int64 {
			t.Helper()
			spec := w.load(t, table).Spec()
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
			return w.replace(t, table, c.Branch, files(c.Remove), files(c.Add))
		},
		SetRef: func(t *testing.T, table string, r catalogtest.Ref) {
			t.Helper()
			kind := icetable.BranchRef
			if r.Tag {
				kind = icetable.TagRef
			}
			w.setRef(t, table, r.Name, r.Snapshot, kind)
		},
		Alter: func(t *testing.T, table string, fields []catalog.Field) {
			t.Helper()
			w.alter(t, table, nested(t, fields)...)
		},
		Expire: w.expire,
		Drop: func(t *testing.T, table string) {
			t.Helper()
			require.NoError(t, w.DropTable(t.Context(), ident(table)))
		},
	}
}

func TestConforms(t *testing.T) {
	catalogtest.Run(t, rig)
}

func TestPostgresConforms(t *testing.T) {
	s := postgrestest.Start(t)
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := newPostgresWriter(t, s)
		return w.rig(w.open(t))
	})
}

func location(name string) string { return fmt.Sprintf("/warehouse/%s.parquet", name) }

// openDB opens a catalog's file as its owner does.
func openDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// anywhere allows all local files: the data files of these tables are names in manifests, and do not exist.
func anywhere() []string { return []string{"/"} }
