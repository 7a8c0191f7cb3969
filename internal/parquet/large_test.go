package parquet_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
)

// longBatches makes batches of incompressible 64-bit integers.
type longBatches struct {
	array.RecordReader
	schema *arrow.Schema
	left   int
	rows   int
	next   uint64
	batch  arrow.RecordBatch
}

func (b *longBatches) Schema() *arrow.Schema          { return b.schema }
func (b *longBatches) RecordBatch() arrow.RecordBatch { return b.batch }
func (b *longBatches) Err() error                     { return nil }
func (b *longBatches) Next() bool {
	if b.left == 0 {
		return false
	}
	b.left--
	columns := make([]arrow.Array, b.schema.NumFields())
	for i := range columns {
		values := make([]int64, b.rows)
		for j := range values {
			b.next = b.next*6364136223846793005 + 1442695040888963407
			values[j] = int64(b.next)
		}
		data := array.NewData(arrow.PrimitiveTypes.Int64, b.rows, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(values))}, nil, 0, 0)
		columns[i] = array.MakeFromData(data)
	}
	b.batch = array.NewRecordBatch(b.schema, columns, int64(b.rows))
	return true
}

// peak tracks the peak of what a reader was admitted.
type peak struct{ held, max int64 }

func (p *peak) admit(n, _ int64) error {
	p.held += n
	p.max = max(p.max, p.held)
	return nil
}

// TestLargeRowGroups expects that a row group takes the stored bytes of the columns read,
// and no more beside them than a small one: pages and a batch. In long runs it has a
// gigabyte.
func TestLargeRowGroups(t *testing.T) { //nolint:paralleltest // it takes much memory
	blocks := max(2, 8/share)
	if long() {
		blocks = 256
	}
	const rows = 1 << 17 // per block of 4 MiB
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64},
		{Name: "b", Type: arrow.PrimitiveTypes.Int64},
		{Name: "c", Type: arrow.PrimitiveTypes.Int64},
		{Name: "d", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	name := filepath.Join(t.TempDir(), "large.parquet")
	out, err := os.Create(name)
	require.NoError(t, err)
	opts := parquettest.Options{FieldIDs: ids(4), Plain: true, RowGroupRows: 1 << 40, Codec: parquettest.Snappy}
	require.NoError(t, parquettest.Write(out, &longBatches{schema: sc, left: blocks, rows: rows}, opts))
	stat, err := out.Stat()
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.Greater(t, stat.Size(), int64(blocks)<<22)
	object, err := store.Local{}.Open(t.Context(), "file://"+name, stat.Size())
	require.NoError(t, err)
	defer func() { require.NoError(t, object.Close()) }()
	f, err := parquet.Open(t.Context(), object, parquet.Options{})
	require.NoError(t, err)
	require.Len(t, f.RowGroups(), 1)

	for _, columns := range []int{1, 4} {
		p := &peak{}
		fields := ids(columns)
		mem := memory.NewCheckedAllocator(batch.NewAllocator())
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{
			Fields: fields, Schema: arrow.NewSchema(sc.Fields()[:columns], nil), Admit: p.admit, Memory: mem, Scratch: mem,
		})
		require.NoError(t, err)
		again, want := int64(0), &longBatches{schema: sc, left: blocks, rows: rows}
		for rdr.Next() {
			got := rdr.RecordBatch()
			if again%rows == 0 {
				require.True(t, want.Next())
			}
			at := again % rows
			for i := range columns {
				part := array.NewSlice(want.batch.Column(i), at, at+got.NumRows())
				require.True(t, array.Equal(part, got.Column(i)), "row %d", again)
				part.Release()
			}
			again += got.NumRows()
			require.NoError(t, p.admit(-rdr.Admitted(), 0))
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, int64(blocks*rows), again)
		rdr.Release()
		require.Zero(t, p.held)
		mem.AssertSize(t, 0)
		stored := f.Stored(0, fields)
		require.Greater(t, stored, int64(columns*blocks)<<20)
		require.Less(t, p.max-stored, int64(columns)*(4<<20), "in addition to %d stored bytes", stored)
	}
}

// TestSmallFilesTakeLittleMemory reads a file of three rows.
func TestSmallFilesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	want := everyType(t).NewSlice(0, 3)
	p := &peak{}
	rdr, err := open(t, write(t, parquettest.Options{}, want)).Read(t.Context(), parquet.ReadOptions{
		Fields: ids(int(want.NumCols())), Schema: want.Schema(), Admit: p.admit,
	})
	require.NoError(t, err)
	defer rdr.Release()
	require.True(t, rdr.Next())
	requireEqual(t, want, deep(t, rdr.RecordBatch()))
	require.False(t, rdr.Next())
	require.NoError(t, rdr.Err())
	require.Less(t, p.max, int64(2<<20))
}
