package main

import (
	"bytes"
	"log/slog"
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
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/telemetry"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// idsOf returns the content of a Parquet file with n ids.
func idsOf(t *testing.T, n int, options parquettest.Options) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range n {
		rows.Field(0).(*array.Int64Builder).Append(int64(i))
	}
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{rows.NewRecordBatch()})
	require.NoError(t, err)
	var content bytes.Buffer
	options.FieldIDs = []int{1}
	require.NoError(t, parquettest.Write(&content, reader, options))
	return content.Bytes()
}

// wrongSizes creates a table of three files. The manifest states a size that is too small, one that
// is too large, and a correct one, and the given number of rows for each.
func wrongSizes(t *testing.T, c *icesql.Catalog, table, dir string, rows int64) {
	t.Helper()
	made, err := c.CreateTable(t.Context(), strings.Split(table, "."), iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}))
	require.NoError(t, err)
	var files []iceberg.DataFile
	for i, by := range []int64{-7, 5000, 0} {
		path, content := filepath.Join(dir, table+string(rune('a'+i))+".parquet"), idsOf(t, 10, parquettest.Options{CreatedBy: strings.Repeat("x", 50*i)})
		require.NoError(t, os.WriteFile(path, content, 0o600))
		file, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+path,
			iceberg.ParquetFile, nil, nil, nil, rows, int64(len(content))+by)
		require.NoError(t, err)
		files = append(files, file.Build())
	}
	tx := made.NewTransaction()
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), nil, files, nil, icetable.WithoutAutoNameMapping()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// readDataset reads a dataset and returns its number of rows.
func readDataset(t *testing.T, e *engine.Engine, name string) (rows int64, err error) {
	t.Helper()
	query := dataset.Query{Rows: dataset.Rows{Dataset: name}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 1}}}.Defaults()
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

// TestFileSizes reads tables whose manifests state wrong file sizes. They are refused unless the
// catalog sets file_sizes to storage. In that case, one warning per table is logged, and a file
// whose row count differs from its manifest is still refused.
//
// spec: catalog-34, catalog-35
func TestFileSizes(t *testing.T) {
	l := lake{dir: t.TempDir()}
	c, done := newCatalog(t, l.dir)
	wrongSizes(t, c, "ml.ids", l.dir, 10)
	wrongSizes(t, c, "ml.more", l.dir, 10)
	wrongSizes(t, c, "ml.rows", l.dir, 11)
	done()
	for name, field := range map[string]string{"default": "", "manifest": "file_sizes: manifest, ", "storage": "file_sizes: storage, "} {
		t.Run(name, func(t *testing.T) {
			l.config = l.file(t, "penstock.yaml", `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", `+field+`allowed_prefixes: ["."]}}
datasets: {ids: {training: {table: ml.ids}, key: [id]}, more: {training: {table: ml.more}, key: [id]}, rows: {training: {table: ml.rows}, key: [id]}}
`)
			settings, err := process{}.load(l.config, nil)
			require.NoError(t, err)
			e, err := engine.Assemble(t.Context(), settings)
			require.NoError(t, err)
			defer e.Close()
			var log bytes.Buffer
			e.Observe(telemetry.NewMetrics("test"), slog.New(slog.NewTextHandler(&log, nil)))
			if name != "storage" {
				for _, of := range []string{"ids", "more", "rows"} {
					_, err := readDataset(t, e, of)
					require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
					require.ErrorContains(t, err, "the table's metadata says")
					require.ErrorContains(t, err, "file_sizes: storage")
				}
				require.NotContains(t, log.String(), "another size")
				return
			}
			for range 2 { // with and without cached footers
				for _, of := range []string{"ids", "more"} {
					rows, err := readDataset(t, e, of)
					require.NoError(t, err)
					require.Equal(t, int64(30), rows)
				}
				_, err = readDataset(t, e, "rows")
				require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "the file's footer counts 10 rows, the manifest 11")
			}
			for _, table := range []string{"ml.ids", "ml.more", "ml.rows"} {
				require.Equal(t, 1, strings.Count(log.String(), "table="+table+" "), log.String())
			}
			require.Equal(t, 3, strings.Count(log.String(), "the size of a file differs from its manifest"), log.String())
			// A file is read again after it was replaced with one of another size.
			require.NoError(t, os.WriteFile(filepath.Join(l.dir, "ml.idsb.parquet"), idsOf(t, 10, parquettest.Options{CreatedBy: "another"}), 0o600))
			rows, err := readDataset(t, e, "ids")
			require.NoError(t, err)
			require.Equal(t, int64(30), rows)
		})
	}
	l.config = l.file(t, "penstock.yaml", `catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", file_sizes: disk}}`)
	_, err := process{}.load(l.config, nil)
	require.ErrorContains(t, err, "catalogs.default.file_sizes: must be manifest or storage")
}
