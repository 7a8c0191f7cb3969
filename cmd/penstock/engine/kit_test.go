package engine_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newCatalog creates a catalog without tables in a folder. done closes it.
func newCatalog(t *testing.T, dir string) (c *icesql.Catalog, done func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "catalog.db"))
	require.NoError(t, err)
	c, err = icesql.NewCatalog("default", db, icesql.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	require.NoError(t, err)
	for _, namespace := range []string{"ml", "features"} {
		require.NoError(t, c.CreateNamespace(t.Context(), icetable.Identifier{namespace}, nil))
	}
	return c, func() { require.NoError(t, db.Close()) }
}

// loaded writes a config file to a folder, and loads it.
func loaded(t *testing.T, dir, text string, flags map[string]string) *config.Config {
	t.Helper()
	path := filepath.Join(dir, "penstock.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := config.Load(config.Origin{File: path, Flags: flags, Storage: engine.StorageProperties()})
	require.NoError(t, err)
	return c
}

// assembled returns the engine of a config, which the test closes at its end.
func assembled(t *testing.T, c *config.Config) *engine.Engine {
	t.Helper()
	e, err := engine.Assemble(t.Context(), c, nil)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// idsFrom returns the content of a Parquet file with ten ids.
func idsFrom(t *testing.T, first int, options parquettest.Options) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range 10 {
		rows.Field(0).(*array.Int64Builder).Append(int64(first + i))
	}
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{rows.NewRecordBatch()})
	require.NoError(t, err)
	var content bytes.Buffer
	options.FieldIDs = []int{1}
	require.NoError(t, parquettest.Write(&content, reader, options))
	return content.Bytes()
}

// listed is a data file, and the size and the number of rows that the manifest states for it.
type listed struct {
	path        string
	bytes, rows int64
}

// create creates a table of files with ids.
func create(t *testing.T, c *icesql.Catalog, table string, files ...listed) {
	t.Helper()
	made, err := c.CreateTable(t.Context(), strings.Split(table, "."),
		iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}))
	require.NoError(t, err)
	var all []iceberg.DataFile
	for _, f := range files {
		file, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+f.path,
			iceberg.ParquetFile, nil, nil, nil, f.rows, f.bytes)
		require.NoError(t, err)
		all = append(all, file.Build())
	}
	tx := made.NewTransaction()
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), nil, all, nil, icetable.WithoutAutoNameMapping()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// createIDs creates a table with one file at path, which has ten ids starting at first.
func createIDs(t *testing.T, c *icesql.Catalog, table, path string, first int) {
	t.Helper()
	content := idsFrom(t, first, parquettest.Options{Codec: parquettest.Uncompressed})
	require.NoError(t, os.WriteFile(path, content, 0o600))
	create(t, c, table, listed{path, int64(len(content)), 10})
}

// read reads the rows of a dataset that pass a filter, and returns their number.
func read(t *testing.T, e *engine.Engine, name, filter string) (rows int64, err error) {
	t.Helper()
	query := dataset.Query{Rows: dataset.Rows{Dataset: name, Filter: datasettest.Filter(filter)}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}}}.Defaults()
	plan, err := e.Loader.Plan(t.Context(), query)
	require.NoError(t, err)
	stream, err := e.Loader.Open(t.Context(), plan, loader.StreamOptions{})
	require.NoError(t, err)
	defer stream.Release()
	for stream.Next() {
		rows += stream.RecordBatch().NumRows()
	}
	return rows, stream.Err()
}

// rowsOf is read of the dataset d, which must succeed.
func rowsOf(t *testing.T, e *engine.Engine, filter string) int64 {
	t.Helper()
	rows, err := read(t, e, "d", filter)
	require.NoError(t, err)
	return rows
}
