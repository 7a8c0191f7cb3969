package parquet_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// decoded returns a batch with values instead of codes, and how many columns had codes.
func decoded(t *testing.T, schema *arrow.Schema, b arrow.RecordBatch) (arrow.RecordBatch, int) {
	t.Helper()
	columns, coded := make([]arrow.Array, b.NumCols()), 0
	for i, c := range b.Columns() {
		if batch.IsCoded(c) {
			coded++
		}
		var err error
		columns[i], err = batch.Gather(schema.Field(i).Type, []batch.Segment{{Values: c, Rows: c.Len()}}, nil)
		require.NoError(t, err)
	}
	return array.NewRecordBatch(schema, columns, b.NumRows()), coded
}

// readCoded reads a file whose texts may come as codes, and returns its values, and the number of
// columns of batches that had codes.
func readCoded(t *testing.T, f *parquet.File, opts parquet.ReadOptions) (out arrow.RecordBatch, coded int, err error) {
	t.Helper()
	opts.Coded, opts.Memory, opts.Scratch = opts.Fields, allocator(t), batch.Default()
	rdr, err := f.Read(t.Context(), opts)
	require.NoError(t, err)
	defer rdr.Release()
	var parts []arrow.RecordBatch
	for rdr.Next() {
		require.True(t, batch.SameValues(rdr.RecordBatch().Schema(), rdr.Schema()))
		b, n := decoded(t, rdr.Schema(), rdr.RecordBatch())
		parts, coded = append(parts, b), coded+n
	}
	if rdr.Err() != nil {
		return nil, coded, rdr.Err()
	}
	return concat(t, rdr.Schema(), parts), coded, nil
}

// TestCodes reads files whose texts come as codes, or not: plain pages, dictionaries, both in one
// column, pages of both versions, from any row on.
func TestCodes(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	coded, plain := 0, 0
	for i := range 48 / share {
		n := 1 + r.IntN(3000)
		want := textBatch(r, n, 1+r.IntN([]int{2 + n/4, 2 * n}[i%2]), []int{0, 3, 40, 600}[i/4%4], []float64{0, 0.1, 0.5, 1}[i%4])
		written := parquettest.Options{
			FieldIDs: ids(int(want.NumCols())), Plain: i%7 == 0, PageV2: i%2 == 0, PageBytes: int64(64 + r.IntN(4096)), RowGroupRows: int64(1 + r.IntN(n)),
			Codec: parquettest.Codec(i % 5),
		}
		f := open(t, write(t, written, want))
		opts := parquet.ReadOptions{Fields: ids(int(want.NumCols())), Schema: want.Schema(), BatchRows: 1 + r.IntN(1500), Cores: cores.New(1 + i%2), MinRepeats: 1 + i%3}
		got, some, err := readCoded(t, f, opts)
		require.NoError(t, err)
		requireEqual(t, want, got)
		if written.Plain {
			require.Zero(t, some)
		}
		if some > 0 {
			coded++
		} else {
			plain++
		}
		if n > 3 {
			opts.From, opts.To = int64(n/3), int64(n-n/4)
			got, _, err = readCoded(t, f, opts)
			require.NoError(t, err)
			requireEqual(t, want.NewSlice(opts.From, opts.To), got)
		}
		opts = parquet.ReadOptions{Fields: opts.Fields, Schema: opts.Schema, MinRepeats: n + 1}
		_, some, err = readCoded(t, f, opts)
		require.NoError(t, err)
		require.Zero(t, some, "values repeat too rarely")
	}
	require.NotZero(t, coded)
	require.NotZero(t, plain)
}

// TestChunksWithCodesAndValuesAreValues reads a chunk that begins with indices, and continues with values since
// its dictionary is large.
func TestChunksWithCodesAndValuesAreValues(t *testing.T) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	for i := range 5000 {
		b.Field(0).(*array.StringBuilder).Append(strings.Repeat(strconv.Itoa(i%900), 1000))
	}
	want := b.NewRecordBatch()
	f := open(t, write(t, parquettest.Options{PageBytes: 1000}, want))
	got, coded, err := readCoded(t, f, parquet.ReadOptions{Fields: ids(1), Schema: want.Schema(), MinRepeats: 1})
	require.NoError(t, err)
	require.Zero(t, coded)
	requireEqual(t, want, got)
}

// inRuns returns rows of a batch, each of the first ones many times.
func inRuns(b arrow.RecordBatch) arrow.RecordBatch {
	columns, rows := make([]arrow.Array, b.NumCols()), make([]int32, b.NumRows())
	for i := range rows {
		rows[i] = int32(i / 40)
	}
	for i, c := range b.Columns() {
		columns[i], _ = batch.Take(c, rows, nil)
	}
	return array.NewRecordBatch(b.Schema(), columns, b.NumRows())
}

// TestDamagedCodes flips bits of dictionaries and indices. Codes fail exactly where values do.
func TestDamagedCodes(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	want := textBatch(r, 900, 40, 3, 0.1)
	runs := inRuns(want)
	fields := ids(int(want.NumCols()))
	failed, same := 0, 0
	for i := range 600 / share {
		rows := []arrow.RecordBatch{want, runs}[i%2]
		good := write(t, parquettest.Options{Codec: parquettest.Uncompressed, PageBytes: 256, RowGroupRows: 300}, rows)
		bad := slices.Clone(good)
		bad[4+r.IntN(len(bad)-4)] ^= 1 << r.IntN(8)
		f, err := parquet.Open(t.Context(), object(t, bad), parquet.Options{})
		if err != nil {
			continue
		}
		opts := parquet.ReadOptions{Fields: fields, Schema: want.Schema(), BatchRows: 64, MinRepeats: 1}
		if _, err := f.Read(t.Context(), opts); err != nil {
			continue
		}
		plain, broken := read(t, f, opts)
		got, coded, err := readCoded(t, f, opts)
		if broken != nil {
			require.Error(t, err)
			require.Equal(t, fault.KindOf(broken), fault.KindOf(err))
			failed++
			continue
		}
		require.NoError(t, err)
		require.NotZero(t, coded)
		requireEqual(t, plain, got)
		same++
	}
	require.Greater(t, failed, 50/share)
	require.Greater(t, same, 50/share)
}

// TestDictionariesAreChargedOnce checks that what is admitted covers a dictionary once, and for as
// long as a batch has it: also after its row group, and its reader.
func TestDictionariesAreChargedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	want := textBatch(r, 4000, 60, 40, 0)
	f := open(t, write(t, parquettest.Options{RowGroupRows: 2000}, want))
	var held, parted atomic.Int64
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{
		Fields: ids(4), Schema: want.Schema(), BatchRows: 100, Coded: ids(4), Memory: allocator(t), Scratch: allocator(t),
		Admit: func(n, _ int64) error { held.Add(n); return nil },
		Part: func(n int64) func() {
			held.Add(-n)
			parted.Add(n)
			return func() { parted.Add(-n) }
		},
	})
	require.NoError(t, err)
	var all []arrow.RecordBatch
	var own int64
	for rdr.Next() {
		b := rdr.RecordBatch()
		b.Retain()
		all = append(all, b)
		require.GreaterOrEqual(t, rdr.Admitted(), int64(0))
		require.LessOrEqual(t, rdr.Admitted(), batch.OwnSize(b))
		own += rdr.Admitted()
	}
	require.NoError(t, rdr.Err())
	require.Len(t, all, 40)
	rdr.Release()
	require.Equal(t, own, held.Load(), "the batches' own memory")
	var dictionaries int64
	for _, b := range []arrow.RecordBatch{all[0], all[39]} {
		for _, c := range b.Columns() {
			require.True(t, batch.IsCoded(c))
			d := c.(*array.Dictionary).Dictionary()
			for _, buffer := range d.Data().Buffers()[1:] {
				dictionaries += int64(buffer.Len())
			}
		}
	}
	require.Equal(t, dictionaries, parted.Load())
	for i, b := range all {
		require.NotZero(t, parted.Load())
		b.Release()
		if i == 19 {
			require.Less(t, parted.Load(), dictionaries)
		}
	}
	require.Zero(t, parted.Load())
}
