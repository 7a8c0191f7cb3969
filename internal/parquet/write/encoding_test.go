package write_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/parquet/write"
)

// filled returns a batch of one column whose values are appended by add.
func filled(sc *arrow.Schema, rows int, add func(to array.Builder, row int)) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for i := range rows {
		add(b.Field(0), i)
	}
	return b.NewRecordBatch()
}

// TestEncodings chooses an encoding by the values of a column.
//
// spec: file-3
func TestEncodings(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	i64, text := schemaOf(arrow.PrimitiveTypes.Int64), schemaOf(arrow.BinaryTypes.String)
	w := newWorld(0)
	element := w.field("element", arrow.PrimitiveTypes.Int64, false)
	lists := arrow.NewSchema([]arrow.Field{w.field("l", arrow.ListOfField(element), true)}, nil)
	// As deltas, these take between 2/3 and 7/8 of what they take plain.
	noisy := func(to array.Builder, i int) { to.(*array.Int64Builder).Append(int64(i)*1000 + int64(rng.IntN(1<<16))) }
	for name, c := range map[string]struct {
		sc   *arrow.Schema
		add  func(to array.Builder, row int)
		want string
	}{
		"few numbers":    {i64, func(to array.Builder, _ int) { to.(*array.Int64Builder).Append(int64(rng.IntN(5)) * 1_000_003) }, "RLE_DICTIONARY"},
		"random numbers": {i64, func(to array.Builder, _ int) { to.(*array.Int64Builder).Append(int64(rng.Uint64())) }, "PLAIN"},
		"times that increase": {i64, func(to array.Builder, row int) {
			to.(*array.Int64Builder).Append(1_700_000_000_000_000 + int64(row)*1_000_000 + int64(rng.IntN(1000)))
		}, "DELTA_BINARY_PACKED"},
		"few texts": {text, func(to array.Builder, _ int) {
			to.(*array.StringBuilder).Append(fmt.Sprintf("country %d", rng.IntN(200)))
		}, "RLE_DICTIONARY"},
		"sorted texts": {text, func(to array.Builder, row int) {
			to.(*array.StringBuilder).Append(fmt.Sprintf("https://example.com/%08x/%010d", row/100, row*7))
		}, "DELTA_BYTE_ARRAY"},
		"noisy numbers": {i64, noisy, "DELTA_BINARY_PACKED"},
		"lists of noisy numbers": {lists, func(to array.Builder, row int) {
			to.(*array.ListBuilder).Append(true)
			noisy(to.(*array.ListBuilder).ValueBuilder(), row)
			noisy(to.(*array.ListBuilder).ValueBuilder(), row)
		}, "PLAIN"},
		"flags": {schemaOf(arrow.FixedWidthTypes.Boolean), func(to array.Builder, row int) { to.(*array.BooleanBuilder).Append(row%3 == 0) }, "PLAIN"},
	} {
		rows := filled(c.sc, 25_000, c.add)
		content, out := writeFile(t, write.Options{Schema: c.sc}, rows)
		requireRows(t, content, c.sc, rows)
		require.Equal(t, map[int]string{1: c.want}, out.Encodings, name)
		rdr, err := file.NewParquetReader(bytes.NewReader(content))
		require.NoError(t, err)
		chunk, err := rdr.MetaData().RowGroup(0).ColumnChunk(0)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(chunk.Encodings()), c.want, name)
	}
	floats := schemaOf(arrow.PrimitiveTypes.Float32)
	rows := filled(floats, 25_000, func(to array.Builder, _ int) { to.(*array.Float32Builder).Append(20 + float32(rng.NormFloat64())) })
	for split, want := range map[bool]string{true: "BYTE_STREAM_SPLIT", false: "PLAIN"} {
		content, out := writeFile(t, write.Options{Schema: floats, ByteStreamSplit: split}, rows)
		requireRows(t, content, floats, rows)
		require.Equal(t, map[int]string{1: want}, out.Encodings)
	}
}

// TestDictionaryOnWish writes a dictionary for texts that all differ, where readers demand one.
func TestDictionaryOnWish(t *testing.T) {
	t.Parallel()
	text := schemaOf(arrow.BinaryTypes.String)
	for _, wanted := range [][]int{nil, {1}} {
		out := &memoryFile{}
		w, err := write.New(t.Context(), out, write.Options{Schema: text, Dictionary: wanted})
		require.NoError(t, err)
		b := filled(text, 300, func(to array.Builder, row int) { to.(*array.StringBuilder).Append(fmt.Sprintf("%x", row*7_777_777)) })
		require.NoError(t, w.Write(t.Context(), b))
		made, err := w.Close(t.Context())
		require.NoError(t, err)
		require.Equal(t, wanted != nil, made.Encodings[1] == "RLE_DICTIONARY", made.Encodings[1])
		w.Release()
	}
}

// TestRepeatedHistories writes lists that repeat in adjacent rows, which as deltas take several
// times the bytes of plain ones: Zstandard finds whole lists again only where they are the same bytes.
//
// spec: file-3
func TestRepeatedHistories(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	w := newWorld(0)
	sc := arrow.NewSchema([]arrow.Field{w.field("history", arrow.ListOfField(w.field("element", arrow.PrimitiveTypes.Int64, false)), true)}, nil)
	var items []int64
	rows := filled(sc, 8000, func(to array.Builder, row int) {
		if row%10 == 0 {
			items = items[:0]
			for range 50 {
				items = append(items, int64(rng.Uint64()>>20))
			}
		}
		b := to.(*array.ListBuilder)
		b.Append(true)
		b.ValueBuilder().(*array.Int64Builder).AppendValues(items, nil)
	})
	content, out := writeFile(t, write.Options{Schema: sc}, rows)
	requireRows(t, content, sc, rows)
	require.NotEqual(t, "DELTA_BINARY_PACKED", out.Encodings[2])
	var deltas bytes.Buffer
	reader, err := array.NewRecordReader(sc, []arrow.RecordBatch{rows})
	require.NoError(t, err)
	defer reader.Release()
	require.NoError(t, parquettest.Write(&deltas, reader, parquettest.Options{Encoding: 5})) // DELTA_BINARY_PACKED
	require.Greater(t, deltas.Len(), 3*len(content), "deltas take %d bytes, the file %d", deltas.Len(), len(content))
}

// TestPages has pages of about the wanted rows and bytes, also where texts are long.
func TestPages(t *testing.T) {
	t.Parallel()
	pages := func(sc *arrow.Schema, opts write.Options, rows arrow.RecordBatch) int {
		opts.Schema = sc
		content, _ := writeFile(t, opts, rows)
		requireRows(t, content, sc, rows)
		rdr, err := file.NewParquetReader(bytes.NewReader(content))
		require.NoError(t, err)
		index, err := rdr.GetPageIndexReader().RowGroup(0)
		require.NoError(t, err)
		offsets, err := index.GetOffsetIndex(0)
		require.NoError(t, err)
		return len(offsets.GetPageLocations())
	}
	i64, text := schemaOf(arrow.PrimitiveTypes.Int64), schemaOf(arrow.BinaryTypes.String)
	require.InDelta(t, 10, pages(i64, write.Options{PageRows: 2048}, numbers(i64, 0, 20_480)), 3)
	random := filled(i64, 20_480, func(to array.Builder, row int) { to.(*array.Int64Builder).Append(mixed(row)) })
	require.InDelta(t, 20, pages(i64, write.Options{}.WithPageBytes(8192), random), 3)
	long := filled(text, 64, func(to array.Builder, row int) {
		to.(*array.StringBuilder).Append(string(bytes.Repeat([]byte{byte('a' + row%26)}, 100_000+row)))
	})
	require.InDelta(t, 64, pages(text, write.Options{}.WithPageBytes(100_000), long), 3)
}

// BenchmarkWrite writes 200,000 rows of numbers, texts and histories.
func BenchmarkWrite(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld(0)
	sc := arrow.NewSchema([]arrow.Field{
		w.field("id", arrow.PrimitiveTypes.Int64, false), w.field("score", arrow.PrimitiveTypes.Float32, true), w.field("country", arrow.BinaryTypes.String, true),
		w.field("history", arrow.ListOfField(w.field("element", arrow.PrimitiveTypes.Int64, false)), true),
	}, nil)
	build := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := range 50_000 {
		build.Field(0).(*array.Int64Builder).Append(int64(i) * 31)
		build.Field(1).(*array.Float32Builder).Append(rng.Float32())
		build.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("c%d", rng.IntN(200)))
		l := build.Field(3).(*array.ListBuilder)
		l.Append(true)
		for range 10 {
			l.ValueBuilder().(*array.Int64Builder).Append(int64(rng.IntN(1 << 30)))
		}
	}
	rows := build.NewRecordBatch()
	for b.Loop() {
		var batches []arrow.RecordBatch
		for range 4 {
			batches = append(batches, rows)
		}
		_, out := writeFile(b, write.Options{Schema: sc}, batches...)
		b.ReportMetric(float64(out.Bytes), "bytes/file")
	}
	b.ReportMetric(float64(200_000*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// TestDeltasAfterNulls writes columns as deltas that have pages of nulls, before and behind values, and
// lists without elements.
//
// spec: file-1
func TestDeltasAfterNulls(t *testing.T) {
	t.Parallel()
	w := newWorld(0)
	sc := arrow.NewSchema([]arrow.Field{
		w.field("n", arrow.PrimitiveTypes.Int64, true), w.field("text", arrow.BinaryTypes.String, true),
		w.field("s", arrow.StructOf(w.field("a", arrow.PrimitiveTypes.Int64, true), w.field("b", arrow.BinaryTypes.String, true)), true),
		w.field("l", arrow.ListOfField(w.field("element", arrow.PrimitiveTypes.Int32, false)), false),
	}, nil)
	values := func(rows int, has func(row, column int) bool) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		number := func(to array.Builder, row int, has bool) {
			if !has {
				to.AppendNull()
			} else if n, ok := to.(*array.Int64Builder); ok {
				n.Append(int64(row)*1000 + mixed(row)&0x3ff) // pages of more than a kilobyte
			} else {
				to.(*array.StringBuilder).Append(fmt.Sprintf("text %08d", row))
			}
		}
		for row := range rows {
			number(b.Field(0), row, has(row, 0))
			number(b.Field(1), row, has(row, 1))
			s := b.Field(2).(*array.StructBuilder)
			s.Append(true)
			number(s.FieldBuilder(0), row, has(row, 2))
			number(s.FieldBuilder(1), row, has(row, 3))
			l := b.Field(3).(*array.ListBuilder)
			l.Append(true)
			if has(row, 4) {
				l.ValueBuilder().(*array.Int32Builder).Append(int32(row))
			}
		}
		return b.NewRecordBatch()
	}
	all := values(2000, func(int, int) bool { return true })
	for name, has := range map[string]func(row, column int) bool{
		"none":               func(int, int) bool { return false },
		"some in the middle": func(row, _ int) bool { return row > 8000 && row < 12_000 },
		"alternating":        func(row, column int) bool { return row/1500%(column+2) == 0 },
		"the last":           func(row, _ int) bool { return row == 19_999 },
	} {
		rows := values(20_000, has)
		batches := []arrow.RecordBatch{all, rows.NewSlice(0, 9000), rows.NewSlice(9000, 20_000), all}
		content, out := writeFile(t, write.Options{Schema: sc, PageRows: 1000}.WithRowGroupRows(15_000), batches...)
		require.Equal(t, "DELTA_BINARY_PACKED", out.Encodings[1], name)
		require.Equal(t, "DELTA_BYTE_ARRAY", out.Encodings[2], name)
		requireRows(t, content, sc, batches...)
	}
}
