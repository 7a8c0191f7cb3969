package parquet_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
)

const location = "file:///t/a.parquet"

// table makes a batch from JSON rows.
func table(t testing.TB, sc *arrow.Schema, rows string) arrow.RecordBatch {
	t.Helper()
	out, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, bytes.NewReader([]byte(rows)))
	require.NoError(t, err)
	return out
}

// write writes batches to a file.
func write(t testing.TB, opts parquettest.Options, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	rdr, err := array.NewRecordReader(batches[0].Schema(), batches)
	require.NoError(t, err)
	defer rdr.Release()
	if opts.FieldIDs == nil {
		opts.FieldIDs = ids(batches[0].Schema().NumFields())
	}
	var out bytes.Buffer
	err = parquettest.Write(&out, rdr, opts)
	require.NoError(t, err)
	return out.Bytes()
}

// ids returns the numbers from 1 to n.
func ids(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

func object(t testing.TB, content []byte) store.Object {
	t.Helper()
	m := storetest.NewMemory()
	m.Put(location, content)
	o, err := m.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

func open(t testing.TB, content []byte) *parquet.File {
	t.Helper()
	f, err := parquet.Open(t.Context(), object(t, content), parquet.Options{})
	require.NoError(t, err)
	return f
}

// allocator returns an allocator that detects leaks, and poisons memory so that misuse
// shows.
func allocator(t testing.TB) memory.Allocator {
	t.Helper()
	checked := memory.NewCheckedAllocator(batch.Default())
	t.Cleanup(func() {
		if t, ok := t.(*testing.T); ok {
			checked.AssertSize(t, 0)
		}
	})
	return checked
}

// read returns all rows as one batch in memory of its own. It reads with allocators that
// detect leaks.
func read(t testing.TB, f *parquet.File, opts parquet.ReadOptions) (arrow.RecordBatch, error) {
	t.Helper()
	opts.Memory, opts.Scratch = allocator(t), batch.Default()
	rdr, err := f.Read(t.Context(), opts)
	if err != nil {
		return nil, err
	}
	defer rdr.Release()
	var parts []arrow.RecordBatch
	for rdr.Next() {
		require.True(t, rdr.RecordBatch().Schema().Equal(rdr.Schema()))
		for _, c := range rdr.RecordBatch().Columns() {
			requireNothingForeign(t, c.Data())
		}
		parts = append(parts, deep(t, rdr.RecordBatch()))
	}
	if rdr.Err() != nil {
		return nil, rdr.Err()
	}
	return concat(t, rdr.Schema(), parts), nil
}

// mustRead also reads some of the rows alone.
func mustRead(t testing.TB, f *parquet.File, opts parquet.ReadOptions) arrow.RecordBatch {
	t.Helper()
	out, err := read(t, f, opts)
	require.NoError(t, err)
	if n := out.NumRows(); n > 2 && opts.RowGroups == nil && opts.Ahead == nil && opts.Admit == nil && opts.WithoutChecksum == nil {
		requireRows(t, f, opts, out, [2]int64{n / 3, n/3 + n/4 + 1})
		if share == 1 {
			requireRows(t, f, opts, out, [2]int64{n - n/8 - 1, n})
		}
	}
	return out
}

// requireRows reads the rows [from, to) of a file, and compares them with those of all its rows.
func requireRows(t testing.TB, f *parquet.File, opts parquet.ReadOptions, all arrow.RecordBatch, rows [2]int64) {
	t.Helper()
	opts.From, opts.To, opts.RowGroups = rows[0], rows[1], []int{}
	for i, g := range f.RowGroups() {
		if max(g.FirstRow, opts.From) < min(g.FirstRow+g.Rows, opts.To) {
			opts.RowGroups = append(opts.RowGroups, i)
		}
	}
	got, err := read(t, f, opts)
	require.NoError(t, err, "rows %v of %d", rows, all.NumRows())
	want := all.NewSlice(rows[0], rows[1])
	defer want.Release()
	requireEqual(t, want, got)
}

// deep copies a batch out of the reader's memory.
func deep(t testing.TB, b arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	nothing := b.NewSlice(0, 0)
	defer nothing.Release()
	return concat(t, b.Schema(), []arrow.RecordBatch{b, nothing})
}

func concat(t testing.TB, sc *arrow.Schema, parts []arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	var rows int64
	for _, p := range parts {
		rows += p.NumRows()
	}
	columns := make([]arrow.Array, sc.NumFields())
	for i := range columns {
		if len(parts) == 0 {
			columns[i] = batch.Nulls(sc.Field(i).Type, 0, memory.DefaultAllocator)
			continue
		}
		var arrays []arrow.Array
		for _, p := range parts {
			arrays = append(arrays, p.Column(i))
		}
		joined, err := array.Concatenate(arrays, memory.DefaultAllocator)
		require.NoError(t, err)
		columns[i] = joined
	}
	return array.NewRecordBatch(sc, columns, rows)
}

func requireEqual(t testing.TB, want, got arrow.RecordBatch) {
	t.Helper()
	require.Equal(t, want.NumRows(), got.NumRows())
	require.Equal(t, want.NumCols(), got.NumCols())
	for i := range int(want.NumCols()) {
		requireColumn(t, want, got, i)
	}
}

func requireColumn(t testing.TB, want, got arrow.RecordBatch, i int) {
	t.Helper()
	require.True(t, array.Equal(want.Column(i), got.Column(i)), "column %s:\nwant %v\n got %v",
		want.ColumnName(i), want.Column(i), got.Column(i))
}

// numbersSchema is the schema of numbers.
func numbersSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "l", Type: arrow.ListOfField(arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64}), Nullable: true},
	}, nil)
}

// numbers makes rows whose values depend on their number.
func numbers(t testing.TB, from, n int) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, numbersSchema())
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%7 == 0 {
			b.Field(1).AppendNull()
			b.Field(2).AppendNull()
		} else {
			b.Field(1).(*array.Float64Builder).Append(float64(i) / 3)
			b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("row %d", i))
		}
		l := b.Field(3).(*array.ListBuilder)
		if i%5 == 0 {
			l.AppendNull()
			continue
		}
		l.Append(true)
		for j := range i % 4 {
			l.ValueBuilder().(*array.Int64Builder).Append(int64(i*10 + j))
		}
	}
	return b.NewRecordBatch()
}

func fromJSON(kind arrow.DataType, values string) (arrow.Array, error) {
	out, _, err := array.FromJSON(memory.DefaultAllocator, kind, bytes.NewReader([]byte(values)))
	return out, err
}

func single(sc *arrow.Schema, column arrow.Array) arrow.RecordBatch {
	return array.NewRecordBatch(sc, []arrow.Array{column}, int64(column.Len()))
}

// requireNothingForeign checks that the memory under the nulls of fixed-width arrays does
// not have what the allocator left there.
func requireNothingForeign(t testing.TB, data arrow.ArrayData) {
	t.Helper()
	for _, child := range data.Children() {
		requireNothingForeign(t, child)
	}
	kind, ok := data.DataType().(arrow.FixedWidthDataType)
	if !ok || kind.BitWidth() < 8 || data.NullN() == 0 {
		return
	}
	validity, values, width := data.Buffers()[0].Bytes(), data.Buffers()[1].Bytes(), kind.Bytes()
	foreign := bytes.Repeat([]byte{0x24, 0xdb}, (data.Len()*width+1)/2) // what batch.Poison fills memory with
	for i := range data.Len() {
		if validity[i/8]&(1<<(i%8)) == 0 {
			require.False(t, bytes.Equal(foreign[i*width:(i+1)*width], values[i*width:(i+1)*width]), "%s: stale memory under the null in row %d", kind, i)
		}
	}
}
