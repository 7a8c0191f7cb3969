package extend_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
)

// memoryFile is a file in memory.
type memoryFile struct{ bytes.Buffer }

func (m *memoryFile) Write(_ context.Context, p []byte) error {
	_, err := m.Buffer.Write(p)
	return err
}

func object(t testing.TB, content []byte) store.Object {
	t.Helper()
	const location = "file:///t/a.parquet"
	m := storetest.NewMemory()
	m.Put(location, content)
	o, err := m.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

func field(name string, t arrow.DataType, id int) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})}
}

// added is the schema of the new columns.
func added() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		field("new number", arrow.PrimitiveTypes.Int64, 1001),
		field("new list", arrow.ListOfField(field("element", arrow.BinaryTypes.String, 1003)), 1002),
	}, nil)
}

// news returns rows of the new columns.
func news(from, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, added())
	defer b.Release()
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		l := b.Field(1).(*array.ListBuilder)
		if i%3 == 0 {
			l.AppendNull()
			continue
		}
		l.Append(true)
		for k := range i % 3 {
			l.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprintf("row %d %d", i, k))
		}
	}
	return b.NewRecordBatch()
}

// add adds the new columns, in batches of some rows, to a file of a number of rows.
func add(t testing.TB, old []byte, rows int, opts extend.Options) ([]byte, write.WrittenFile, error) {
	t.Helper()
	if opts.Write.Schema == nil {
		opts.Write.Schema = added()
	}
	var to memoryFile
	w, err := extend.AddColumns(t.Context(), &to, object(t, old), opts)
	if err != nil {
		return nil, write.WrittenFile{}, err
	}
	defer w.Release()
	for at := 0; at < rows; at += 170 {
		if err := w.Write(t.Context(), news(at, min(170, rows-at))); err != nil {
			return nil, write.WrittenFile{}, err
		}
	}
	out, err := w.Close(t.Context())
	return to.Bytes(), out, err
}

// footer returns the metadata of a file.
func footer(t testing.TB, content []byte) *metadata.FileMetaData {
	t.Helper()
	rdr, err := file.NewParquetReader(bytes.NewReader(content))
	require.NoError(t, err)
	return rdr.MetaData()
}

// span returns the range of a chunk's pages.
func span(t testing.TB, meta *metadata.FileMetaData, group, column int) (start, end int64) {
	t.Helper()
	c, err := meta.RowGroup(group).ColumnChunk(column)
	require.NoError(t, err)
	start = c.DataPageOffset()
	if c.HasDictionaryPage() {
		start = min(start, c.DictionaryPageOffset())
	}
	return start, start + c.TotalCompressedSize()
}

// requireMoved checks that the old columns of a new file are those of the old one, byte for byte,
// and that the page indexes fit to them.
func requireMoved(t *testing.T, old, content []byte) {
	t.Helper()
	before, after := footer(t, old), footer(t, content)
	require.Equal(t, before.NumRows, after.NumRows)
	require.Equal(t, before.GetCreatedBy(), after.GetCreatedBy())
	for g := range before.NumRowGroups() {
		for c := range before.Schema.NumColumns() {
			from, to := span(t, before, g, c)
			at, end := span(t, after, g, c)
			require.Equal(t, old[from:to], content[at:end], "row group %d, column %d", g, c)
			x, y := before.FileMetaData.RowGroups[g].Columns[c], after.FileMetaData.RowGroups[g].Columns[c]
			require.Equal(t, x.MetaData.Statistics, y.MetaData.Statistics)
			require.Equal(t, x.MetaData.Encodings, y.MetaData.Encodings)
			require.Equal(t, x.ColumnIndexOffset == nil, y.ColumnIndexOffset == nil)
			if x.ColumnIndexOffset != nil {
				require.Equal(t, old[*x.ColumnIndexOffset:][:*x.ColumnIndexLength], content[*y.ColumnIndexOffset:][:*y.ColumnIndexLength])
			}
			require.Equal(t, x.MetaData.BloomFilterOffset == nil, y.MetaData.BloomFilterOffset == nil)
			if x.OffsetIndexOffset != nil {
				requirePages(t, old, content, g, c)
			}
		}
	}
}

// requirePages compares the pages that the offset indexes of both files point to.
func requirePages(t *testing.T, old, content []byte, group, column int) {
	t.Helper()
	var pages [2][][]byte
	var rows [2][]int64
	for i, file1 := range [][]byte{old, content} {
		rdr, err := file.NewParquetReader(bytes.NewReader(file1))
		require.NoError(t, err)
		index, err := rdr.GetPageIndexReader().RowGroup(group)
		require.NoError(t, err)
		offsets, err := index.GetOffsetIndex(column)
		require.NoError(t, err)
		for _, p := range offsets.GetPageLocations() {
			pages[i] = append(pages[i], file1[p.Offset:][:p.CompressedPageSize])
			rows[i] = append(rows[i], p.FirstRowIndex)
		}
	}
	require.NotEmpty(t, pages[0])
	require.Equal(t, pages[0], pages[1])
	require.Equal(t, rows[0], rows[1])
}

// requireColumns reads columns of a file by field id, and compares them with those of a batch.
func requireColumns(t testing.TB, content []byte, fields []int, want arrow.RecordBatch) {
	t.Helper()
	f, err := parquet.Open(t.Context(), object(t, content), parquet.Options{})
	require.NoError(t, err)
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: fields, Schema: want.Schema()})
	require.NoError(t, err)
	defer rdr.Release()
	at := int64(0)
	for rdr.Next() {
		b := rdr.RecordBatch()
		part := want.NewSlice(at, at+b.NumRows())
		for i := range fields {
			require.True(t, array.Equal(part.Column(i), b.Column(i)), "column %d from row %d:\nwant %v\n got %v", i, at, part.Column(i), b.Column(i))
		}
		part.Release()
		at += b.NumRows()
	}
	require.NoError(t, rdr.Err())
	require.Equal(t, want.NumRows(), at)
}

// oldRows are the rows of old files.
func oldRows(n int) arrow.RecordBatch {
	sc := arrow.NewSchema([]arrow.Field{
		field("id", arrow.PrimitiveTypes.Int64, 1), field("text", arrow.BinaryTypes.String, 2),
		field("list", arrow.ListOfField(field("element", arrow.PrimitiveTypes.Float64, 4)), 3),
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i) * 7)
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("text %d", i%50))
		l := b.Field(2).(*array.ListBuilder)
		l.Append(i%5 != 0)
		if i%5 != 0 {
			l.ValueBuilder().(*array.Float64Builder).AppendValues([]float64{float64(i), 1}, nil)
		}
	}
	return b.NewRecordBatch()
}

// withFooter returns a file with a changed footer.
func withFooter(t testing.TB, content []byte, change func(*metadata.FileMetaData)) []byte {
	t.Helper()
	meta := footer(t, content)
	change(meta)
	var out bytes.Buffer
	_, err := meta.WriteTo(&out, nil)
	require.NoError(t, err)
	length := binary.LittleEndian.Uint32(content[len(content)-8:])
	end := binary.LittleEndian.AppendUint32(out.Bytes(), uint32(out.Len()))
	return append(append(bytes.Clone(content[:len(content)-8-int(length)]), end...), "PAR1"...)
}

// oldFile returns a file with all indexes.
func oldFile(t testing.TB, rows arrow.RecordBatch) []byte {
	t.Helper()
	var to memoryFile
	w, err := write.New(t.Context(), &to, write.Options{Schema: rows.Schema(), Bloom: []int{1, 2}})
	require.NoError(t, err)
	defer w.Release()
	require.NoError(t, w.Write(t.Context(), rows))
	_, err = w.Close(t.Context())
	require.NoError(t, err)
	return to.Bytes()
}
