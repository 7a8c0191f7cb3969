package main

import (
	"bytes"
	"fmt"
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

	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// named creates a table with one file at path, which has ten ids starting at first.
func named(t *testing.T, c *icesql.Catalog, table, path string, first int) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range 10 {
		rows.Field(0).(*array.Int64Builder).Append(int64(first + i))
	}
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{rows.NewRecordBatch()})
	require.NoError(t, err)
	var content bytes.Buffer
	err = parquettest.Write(&content, reader, parquettest.Options{FieldIDs: []int{1}, Codec: parquettest.Uncompressed})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content.Bytes(), 0o600))

	made, err := c.CreateTable(t.Context(), strings.Split(table, "."),
		iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}))
	require.NoError(t, err)
	file, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+path,
		iceberg.ParquetFile, nil, nil, nil, 10, int64(content.Len()))
	require.NoError(t, err)
	tx := made.NewTransaction()
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), nil, []iceberg.DataFile{file.Build()}, nil, icetable.WithoutAutoNameMapping()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// If a table is dropped and created again with a file of the same name and length, it is read with
// the footer of the new file.
func TestRecreatedTables(t *testing.T) {
	l := lake{dir: t.TempDir()}
	c, done := newCatalog(t, l.dir)
	defer done()
	l.config = l.file(t, "penstock.yaml", `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", allowed_prefixes: ["."]}}
datasets: {d: {training: {table: ml.ids}, key: [id]}}
`)
	path := filepath.Join(l.dir, "part.parquet")
	settings, err := process{}.load(l.config, nil)
	require.NoError(t, err)
	e, err := engine.Assemble(t.Context(), settings)
	require.NoError(t, err)
	defer e.Close()
	length := int64(0)
	for first := 0; first < 3000; first += 1000 {
		named(t, c, "ml.ids", path, first)
		file, err := os.Stat(path)
		require.NoError(t, err)
		require.True(t, length == 0 || length == file.Size(), "the files differ in length")
		length = file.Size()
		require.Equal(t, int64(5), rowsOf(t, e, fmt.Sprintf("id >= %d", first+5)), "ids from %d on", first)
		require.NoError(t, c.DropTable(t.Context(), icetable.Identifier{"ml", "ids"}))
	}
}

// rowsOf counts the rows of the dataset d that pass a filter.
func rowsOf(t *testing.T, e *engine.Engine, filter string) int64 {
	t.Helper()
	query := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter(filter)}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}}}.Defaults()
	plan, err := e.Loader.Plan(t.Context(), query)
	require.NoError(t, err)
	stream, err := e.Loader.Open(t.Context(), plan, loader.StreamOptions{})
	require.NoError(t, err)
	defer stream.Release()
	rows := int64(0)
	for stream.Next() {
		rows += stream.RecordBatch().NumRows()
	}
	require.NoError(t, stream.Err())
	return rows
}
