package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
)

// All pages of all row groups are decompressed.
func TestMeasure(t *testing.T) {
	const rows = 3000
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range rows {
		b.Append(int64(i))
	}
	values := b.NewArray()
	defer values.Release()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: values.DataType()}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{values}, rows)
	defer batch.Release()
	table := array.NewTableFromRecords(schema, []arrow.RecordBatch{batch})
	defer table.Release()
	name := filepath.Join(t.TempDir(), "a.parquet")
	f, err := os.Create(name) //nolint:gosec // the test's own
	require.NoError(t, err)
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(false))
	require.NoError(t, pqarrow.WriteTable(table, f, rows/3, properties, pqarrow.DefaultWriterProps()))

	found, err := measure([]string{name, name})
	require.NoError(t, err)
	require.Equal(t, int64(2*8*rows), found.Decompressed)
	require.Positive(t, found.Compressed)
	require.Less(t, found.Compressed, found.Decompressed)

	_, err = measure([]string{name + "x"})
	require.Error(t, err)
	require.Error(t, run(nil))
}
