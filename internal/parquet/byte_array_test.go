package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// textBatch makes n rows of required and optional columns of strings and bytes, with the
// given number of distinct values, some of them empty and some long, and with nulls in
// runs and alone.
func textBatch(r *rand.Rand, n, distinct, maxLength int, nulls float64) arrow.RecordBatch {
	var fields []arrow.Field
	for i, dt := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.Binary} {
		fields = append(fields,
			arrow.Field{Name: fmt.Sprint("required", i), Type: dt}, arrow.Field{Name: fmt.Sprint("optional", i), Type: dt, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i, f := range fields {
		null := false
		for range n {
			if r.IntN(20) == 0 {
				null = r.Float64() < nulls
			}
			if f.Nullable && null {
				b.Field(i).AppendNull()
				continue
			}
			v := r.IntN(distinct)
			text := fmt.Sprint(v, strings.Repeat("ä", v*v%(maxLength+1)))
			if v%5 == 0 {
				text = ""
			}
			switch b := b.Field(i).(type) {
			case *array.StringBuilder:
				b.Append(text)
			case *array.BinaryBuilder:
				b.Append([]byte(text))
			}
		}
	}
	return b.NewRecordBatch()
}

// TestByteArrayColumns reads files written by the library in batches of any length: plain
// pages, dictionaries, both in one column, pages of both versions, batches shortened for
// long values.
func TestByteArrayColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	rounds := 24
	if os.Getenv("PENSTOCK_LONG") != "" {
		rounds = 480
	}
	for i := 0; i < rounds; i += share {
		n := 1 + r.IntN(3000)
		want := textBatch(r, n, 1+r.IntN(2*n), []int{0, 3, 40, 600}[i/4%4], []float64{0, 0.1, 0.5, 1}[i%4])
		opts := parquettest.Options{
			FieldIDs: ids(int(want.NumCols())), Plain: i%3 == 0, PageV2: i%2 == 0, PageBytes: int64(64 + r.IntN(4096)), RowGroupRows: int64(1 + r.IntN(n)),
			Codec: parquettest.Codec(i % 5),
		}
		content := write(t, opts, want)
		got := mustRead(t, open(t, content), parquet.ReadOptions{
			Fields: ids(int(want.NumCols())), Schema: want.Schema(), BatchRows: 1 + r.IntN(1500), Cores: cores.New(1 + i%2),
			RunBytes: []int64{0, 100, 5000}[i%3],
		})
		requireEqual(t, want, got)
		got.Release()
		want.Release()
	}
}

// TestPyarrowEmptyFiles reads files of testdata/make.py without rows, and without values:
// pages that decompress to nothing.
func TestPyarrowEmptyFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ columns, rows int }{
		"empty": {4, 0}, "nulls-1": {1, 50}, "nulls-2": {1, 50},
	} {
		content, err := os.ReadFile("testdata/" + name + ".parquet")
		require.NoError(t, err)
		f := open(t, content)
		var fields []arrow.Field
		for _, of := range f.Fields() {
			fields = append(fields, arrow.Field{Name: of.Name, Type: of.Type, Nullable: of.Nullable})
		}
		require.Len(t, fields, want.columns)
		got := mustRead(t, f, parquet.ReadOptions{Fields: ids(want.columns), Schema: arrow.NewSchema(fields, nil)})
		require.Equal(t, int64(want.rows), got.NumRows(), name)
		require.Equal(t, want.rows, got.Column(0).NullN(), name)
	}
}

// TestDictionaryIsReservedOnce counts requests: one for the stored bytes of a row group,
// and one for its pages, the dictionary and the positions of its values.
func TestDictionaryIsReservedOnce(t *testing.T) {
	t.Parallel()
	rows := textBatch(rand.New(rand.NewPCG(1, 1)), 2000, 500, 40, 0.1)
	requests := 0
	rdr, err := open(t, write(t, parquettest.Options{}, rows)).Read(t.Context(), parquet.ReadOptions{
		Fields: ids(4), Schema: rows.Schema(), RunBytes: 1000, Memory: allocator(t), Scratch: allocator(t),
		Admit: func(n, batch int64) error {
			if n > 0 && batch == 0 {
				requests++
			}
			return nil
		},
	})
	require.NoError(t, err)
	defer rdr.Release()
	for rdr.Next() {
	}
	require.NoError(t, rdr.Err())
	require.Equal(t, 2, requests)
}

// FuzzByteArrayColumns changes bytes of a file: reading returns the rows or an error, and
// frees all memory.
func FuzzByteArrayColumns(f *testing.F) {
	f.Add(uint16(9), byte(1), true)
	f.Add(uint16(400), byte(255), false)
	fuzzFlips(f, parquettest.Options{}, 78, func(*testing.T) arrow.RecordBatch {
		return textBatch(rand.New(rand.NewPCG(1, 1)), 300, 40, 20, 0.3)
	})
}

// BenchmarkText reads strings written by the library.
func BenchmarkText(b *testing.B) {
	for name, distinct := range map[string]int{"few": 50, "many": 5000, "all": 1 << 30} {
		rows := textBatch(rand.New(rand.NewPCG(1, 1)), 100_000, distinct, 20, 0.1)
		content := write(b, parquettest.Options{}, rows)
		f, pool := open(b, content), memory.Allocator(memory.DefaultAllocator)
		b.Run(name, func(b *testing.B) {
			measure(b, rows.NumRows(), func() {
				rdr, err := f.Read(b.Context(), parquet.ReadOptions{Fields: ids(4), Schema: rows.Schema(), Memory: pool})
				require.NoError(b, err)
				defer rdr.Release()
				for rdr.Next() {
				}
				require.NoError(b, rdr.Err())
			})
		})
		b.Run(name+"/library", func(b *testing.B) { measure(b, rows.NumRows(), func() { readRaw(b, content, false, pool) }) })
	}
}
