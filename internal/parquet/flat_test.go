package parquet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// flatBatch makes n rows of required and optional columns of every flat type, with the
// given number of distinct values, and with nulls in runs and alone.
func flatBatch(t *testing.T, r *rand.Rand, n, distinct int, nulls float64) arrow.RecordBatch {
	t.Helper()
	var fields []arrow.Field
	for i, dt := range []arrow.DataType{
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Time64us, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
	} {
		fields = append(fields,
			arrow.Field{Name: fmt.Sprint("required", i), Type: dt}, arrow.Field{Name: fmt.Sprint("optional", i), Type: dt, Nullable: true})
	}
	sc := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
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
			appendNumber(b.Field(i), int64(r.IntN(distinct)))
		}
	}
	return b.NewRecordBatch()
}

func appendNumber(b array.Builder, v int64) {
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v) - 7)
	case *array.Int64Builder:
		b.Append(v << 33)
	case *array.Float32Builder:
		b.Append(float32(v) / 3)
	case *array.Float64Builder:
		b.Append(float64(v) / 7)
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	case *array.Time64Builder:
		b.Append(arrow.Time64(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v * 1000003))
	}
}

// TestFlatColumns reads files written by the library in batches of any length: plain
// pages, dictionaries, both in one column, pages of both versions.
func TestFlatColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rounds := 12
	if os.Getenv("PENSTOCK_LONG") != "" {
		rounds = 240
	}
	for i := 0; i < rounds; i += share {
		n := 1 + r.IntN(5000)
		want := flatBatch(t, r, n, 1+r.IntN(3*n), []float64{0, 0.1, 0.5, 1}[i%4])
		opts := parquettest.Options{
			FieldIDs: ids(int(want.NumCols())), Plain: i%3 == 0, PageV2: i%2 == 0, PageBytes: int64(64 + r.IntN(4096)), RowGroupRows: int64(1 + r.IntN(n)),
			Codec: parquettest.Codec(i % 5),
		}
		content := write(t, opts, want)
		got := mustRead(t, open(t, content), parquet.ReadOptions{
			Fields: ids(int(want.NumCols())), Schema: want.Schema(), BatchRows: 1 + r.IntN(700), Cores: cores.New(1 + i%2),
		})
		requireEqual(t, want, got)
		got.Release()
		want.Release()
	}
}

// FuzzFlatColumns changes bytes of a file: reading returns the rows or an error, and
// frees all memory.
func FuzzFlatColumns(f *testing.F) {
	f.Add(uint16(9), byte(1), true)
	f.Add(uint16(400), byte(255), false)
	fuzzFlips(f, parquettest.Options{}, 77, func(t *testing.T) arrow.RecordBatch {
		return flatBatch(t, rand.New(rand.NewPCG(1, 1)), 300, 40, 0.3)
	})
}
