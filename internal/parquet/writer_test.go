package parquet_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
)

// TestWriter writes batches, and reads them with the library.
func TestWriter(t *testing.T) {
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, schema)
	require.NoError(t, err)
	const text = `[{"n": 1, "text": "a", "list": [1, null]}, {"n": 2, "text": null, "list": null}, {"n": 3, "text": "", "list": []}]`
	want, _, err := array.RecordFromJSON(mem, schema, bytes.NewReader([]byte(text)))
	require.NoError(t, err)
	defer want.Release()
	for _, rows := range [][2]int64{{0, 1}, {1, 3}, {3, 3}} {
		part := want.NewSlice(rows[0], rows[1])
		require.NoError(t, w.Write(part))
		part.Release()
	}
	require.NoError(t, w.Close())

	written, err := file.NewParquetReader(bytes.NewReader(out.Bytes()))
	require.NoError(t, err)
	reader, err := pqarrow.NewFileReader(written, pqarrow.ArrowReadProperties{}, batch.Zeroed(mem))
	require.NoError(t, err)
	table, err := reader.ReadTable(t.Context())
	require.NoError(t, err)
	defer table.Release()
	require.Equal(t, int64(3), table.NumRows())
	for i, f := range schema.Fields() {
		require.Equal(t, f.Name, table.Schema().Field(i).Name)
		require.Equal(t, f.Nullable, table.Schema().Field(i).Nullable)
		chunks := table.Column(i).Data().Chunks()
		require.Len(t, chunks, 1)
		require.True(t, array.Equal(want.Column(i), chunks[0]), "%v", chunks[0])
	}
}

// TestWriterErrors writes a type that Parquet lacks, and to a writer that fails.
func TestWriterErrors(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "u", Type: arrow.UnionOf(arrow.SparseMode, nil, nil)}}, nil)
	_, err := parquet.NewWriter(&bytes.Buffer{}, schema)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.NotEmpty(t, fault.As(err).Remedy)

	broken := errors.New("no room")
	w, err := parquet.NewWriter(fails{broken}, numbersSchema())
	if err == nil {
		batch := numbers(t, 0, 10)
		if err = w.Write(batch); err == nil {
			err = w.Close()
		}
	}
	require.ErrorIs(t, err, broken)
}

type fails struct{ err error }

func (f fails) Write([]byte) (int, error) { return 0, f.err }
