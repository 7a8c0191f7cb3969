package parquet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// training makes a bucket of training rows: 18 numeric columns, ten rows per request.
func training(n int) arrow.RecordBatch {
	fields := []arrow.Field{
		{Name: "request_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "item_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "label", Type: arrow.PrimitiveTypes.Float32},
	}
	for i := range 10 {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("f%d", i), Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	for i := range 5 {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("i%d", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	random := rand.New(rand.NewPCG(1, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i/10) * 7919)
		b.Field(1).(*array.Int64Builder).Append(random.Int64N(1_000_000))
		b.Field(2).(*array.Float32Builder).Append(float32(random.IntN(2)))
		for c := range 10 {
			b.Field(3 + c).(*array.Float32Builder).Append(random.Float32())
		}
		for c := range 5 {
			b.Field(13 + c).(*array.Int64Builder).Append(random.Int64N(100_000))
		}
	}
	return b.NewRecordBatch()
}

// staging makes a bucket of staging rows: a key, a string and a list of 50 numbers.
func staging(n int) arrow.RecordBatch {
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "request_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "history", Type: list(arrow.PrimitiveTypes.Int64, true), Nullable: true},
	}, nil)
	random := rand.New(rand.NewPCG(1, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("%c%c", 'A'+random.IntN(14), 'A'+random.IntN(14)))
		l := b.Field(2).(*array.ListBuilder)
		l.Append(true)
		for range 50 {
			l.ValueBuilder().(*array.Int64Builder).Append(random.Int64N(1_000_000))
		}
	}
	return b.NewRecordBatch()
}

func cpu() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}

// measure reports rows per second, and CPU milliseconds per file, which are steadier than
// wall time on a busy machine.
func measure(b *testing.B, rows int64, once func()) {
	b.Helper()
	once()
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for b.Loop() {
		once()
	}
	b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkRead(b *testing.B) {
	for name, rows := range map[string]arrow.RecordBatch{"training": training(250_000), "staging": staging(25_000)} {
		content := write(b, parquettest.Options{}, rows)
		f := open(b, content)
		pool := &batch.Pool{}
		run := func(opts parquet.ReadOptions) func() {
			opts.Fields, opts.Schema = ids(int(rows.NumCols())), rows.Schema()
			return func() {
				rdr, err := f.Read(b.Context(), opts)
				require.NoError(b, err)
				defer rdr.Release()
				for rdr.Next() {
				}
				require.NoError(b, rdr.Err())
			}
		}
		for _, batchRows := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10} {
			for _, parallel := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/pool/batch=%dk/parallel=%d", name, batchRows>>10, parallel), func(b *testing.B) {
					measure(b, rows.NumRows(), run(parquet.ReadOptions{BatchRows: batchRows, Cores: cores.New(parallel), Memory: pool, Scratch: pool}))
				})
			}
		}
		b.Run(name+"/heap/batch=32k/parallel=1", func(b *testing.B) {
			measure(b, rows.NumRows(), run(parquet.ReadOptions{BatchRows: 32 << 10}))
		})
		b.Run(name+"/pool-without-scratch/batch=32k/parallel=1", func(b *testing.B) {
			measure(b, rows.NumRows(), run(parquet.ReadOptions{BatchRows: 32 << 10, Memory: pool}))
		})
		for _, parallel := range []bool{false, true} {
			for _, mem := range []memory.Allocator{memory.DefaultAllocator, pool} {
				b.Run(fmt.Sprintf("%s/pqarrow/%T/batch=32k/parallel=%t", name, mem, parallel), func(b *testing.B) {
					measure(b, rows.NumRows(), func() { readRaw(b, content, parallel, mem) })
				})
			}
		}
	}
}

// readRaw reads with arrow-go alone, for comparison.
func readRaw(b *testing.B, content []byte, parallel bool, mem memory.Allocator) {
	b.Helper()
	pages, err := file.NewParquetReader(bytes.NewReader(content), file.WithReadProps(arrowparquet.NewReaderProperties(mem)))
	require.NoError(b, err)
	raw, err := pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{Parallel: parallel, BatchSize: 32 << 10}, mem)
	require.NoError(b, err)
	rdr, err := raw.GetRecordReader(b.Context(), nil, nil)
	require.NoError(b, err)
	defer rdr.Release()
	for rdr.Next() {
	}
	require.NoError(b, rdr.Err())
}

// BenchmarkSmallFiles measures the cost per file.
func BenchmarkSmallFiles(b *testing.B) {
	rows := training(10)
	content := write(b, parquettest.Options{}, rows)
	f := open(b, content)
	pool := &batch.Pool{}
	obj := object(b, content)
	for _, columns := range []int{2, 18} {
		fields := make([]int, columns)
		for i := range fields {
			fields[i] = i
		}
		for name, footer := range map[string]*parquet.Footer{"footer read": nil, "footer known": f.Footer} {
			b.Run(fmt.Sprintf("columns=%d/%s", columns, name), func(b *testing.B) {
				measure(b, 10, func() {
					f, err := parquet.Open(b.Context(), obj, parquet.Options{Footer: footer})
					require.NoError(b, err)
					rdr, err := f.Read(b.Context(), parquet.ReadOptions{Fields: ids(columns), Schema: project(rows.Schema(), fields...), Memory: pool, Scratch: pool})
					require.NoError(b, err)
					defer rdr.Release()
					for rdr.Next() {
					}
					require.NoError(b, rdr.Err())
				})
			})
		}
	}
}

// BenchmarkPages measures the cost of walking all page headers, compared with decoding.
func BenchmarkPages(b *testing.B) {
	rows := training(250_000)
	for _, c := range []struct {
		name string
		opts parquettest.Options
	}{
		{"1MiB", parquettest.Options{}},
		{"80KiB", parquettest.Options{PageBytes: 80 << 10, Plain: true}},
		{"8KiB", parquettest.Options{PageBytes: 8 << 10, Plain: true}},
		{"8KiB-stored", parquettest.Options{PageBytes: 8 << 10, Plain: true, Codec: parquettest.Uncompressed}},
	} {
		content := write(b, c.opts, rows)
		f := open(b, content)
		pool := &batch.Pool{}
		b.Run(c.name+"/decode", func(b *testing.B) {
			measure(b, rows.NumRows(), func() {
				rdr, err := f.Read(b.Context(), parquet.ReadOptions{
					Fields: ids(int(rows.NumCols())), Schema: rows.Schema(), BatchRows: 32 << 10, Memory: pool, Scratch: pool,
				})
				require.NoError(b, err)
				defer rdr.Release()
				for rdr.Next() {
				}
				require.NoError(b, rdr.Err())
			})
		})
		b.Run(c.name+"/headers", func(b *testing.B) {
			measure(b, rows.NumRows(), func() { require.NoError(b, parquet.CheckPages(f, content)) })
		})
	}
}
