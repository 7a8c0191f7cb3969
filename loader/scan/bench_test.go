package scan_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// benchBuckets is the bucket count of the benchmarks' tables.
const benchBuckets = 16

// benchTable gives columns ids and a spec by bucket of the first.
func benchTable(columns []arrow.Field) *catalog.Table {
	t := &catalog.Table{Name: "bench.t", Pin: dataset.TablePin{Snapshot: 1}, Specs: map[int]catalog.Spec{
		0: {{ID: 1000, Source: 1, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: benchBuckets}}},
	}}
	for i, c := range columns {
		t.Fields = append(t.Fields, catalog.Field{ID: i + 1, Name: c.Name, Type: c.Type, Required: !c.Nullable})
	}
	return t
}

// keysOf gives ids of requests that fall into bucket 3, ascending.
func keysOf() func() int64 {
	key := int64(0)
	return func() int64 {
		for {
			key++
			if buckettest.Of(bucket.HashInt64(key), benchBuckets) == 3 {
				return key
			}
		}
	}
}

// trainingBucket is one bucket of the training table of the benchmarks: 18
// columns of numbers, ten rows per request.
func trainingBucket(n int) arrow.RecordBatch {
	columns := []arrow.Field{
		{Name: "request_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "item_id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "label", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	}
	for i := range 10 {
		columns = append(columns, arrow.Field{Name: fmt.Sprintf("f%d", i), Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	for i := range 5 {
		columns = append(columns, arrow.Field{Name: fmt.Sprintf("i%d", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	random, key, request := rand.New(rand.NewPCG(1, 1)), keysOf(), int64(0)
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(columns, nil))
	for i := range n {
		if i%10 == 0 {
			request = key()
		}
		b.Field(0).(*array.Int64Builder).Append(request)
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

// stagingBucket is one bucket of the staging table: twelve columns, one of
// them a list of 50.
func stagingBucket(n int) arrow.RecordBatch {
	columns := []arrow.Field{
		{Name: "request_id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "user_id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "history", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	}
	for i := range 8 {
		columns = append(columns, arrow.Field{Name: fmt.Sprintf("f%d", i), Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	}
	random, key := rand.New(rand.NewPCG(1, 1)), keysOf()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(columns, nil))
	for range n {
		b.Field(0).(*array.Int64Builder).Append(key())
		b.Field(1).(*array.Int64Builder).Append(random.Int64N(1_000_000))
		b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("%c%c", 'A'+random.IntN(14), 'A'+random.IntN(14)))
		l := b.Field(3).(*array.ListBuilder)
		l.Append(true)
		for range 50 {
			l.ValueBuilder().(*array.Int64Builder).Append(random.Int64N(1_000_000))
		}
		for c := range 8 {
			b.Field(4 + c).(*array.Float32Builder).Append(random.Float32())
		}
	}
	return b.NewRecordBatch()
}

// onDisk writes rows into some files of a folder, and returns their source.
func onDisk(b *testing.B, rows arrow.RecordBatch, files int) plan.Source {
	b.Helper()
	t := benchTable(rows.Schema().Fields())
	source := plan.Source{Table: t, Planned: everyColumn(t), Checked: t.Fields[:1]}
	ids := make([]int, len(t.Fields))
	for i := range ids {
		ids[i] = i + 1
	}
	dir, n := b.TempDir(), rows.NumRows()
	for i := range int64(files) {
		part := rows.NewSlice(i*n/int64(files), (i+1)*n/int64(files))
		rdr, err := array.NewRecordReader(part.Schema(), []arrow.RecordBatch{part})
		require.NoError(b, err)
		var content bytes.Buffer
		err = parquettest.Write(&content, rdr, parquettest.Options{FieldIDs: ids})
		require.NoError(b, err)
		path := filepath.Join(dir, fmt.Sprintf("%d.parquet", i))
		require.NoError(b, os.WriteFile(path, content.Bytes(), 0o600))
		source.Files = append(source.Files, plan.FileRange{
			File: catalog.File{Location: path, Bytes: int64(content.Len()), Rows: part.NumRows(), Partition: []any{int64(3)}}, To: part.NumRows(),
		})
	}
	return source
}

func cpu() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}

// measure reads a source once per round, and reports rows per second and the
// milliseconds of all CPUs, which are steadier on a busy machine.
func measure(b *testing.B, s *scan.Scanner, source plan.Source, columns []catalog.Field) {
	b.Helper()
	rows := int64(0)
	once := func() {
		rdr, err := s.Open(b.Context(), source, columns)
		require.NoError(b, err)
		defer rdr.Release()
		rows = 0
		for rdr.Next() {
			rows += rdr.RecordBatch().NumRows()
		}
		require.NoError(b, rdr.Err())
	}
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

// BenchmarkScan reads one bucket of the tables of the benchmarks, a sixteenth
// of each.
func BenchmarkScan(b *testing.B) {
	for _, t := range []struct {
		name  string
		rows  arrow.RecordBatch
		files int
	}{{"training", trainingBucket(250_000), 1}, {"staging", stagingBucket(25_000), 1}, {"staging-in-10-files", stagingBucket(25_000), 10}} {
		source := onDisk(b, t.rows, t.files)
		for _, batchRows := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10} {
			for _, parallel := range []int{1, 2} {
				s, err := scan.New(scan.Options{Files: catalogtest.FromStore(store.Local{}), BatchRows: batchRows, Cores: cores.New(parallel)})
				require.NoError(b, err)
				b.Run(fmt.Sprintf("%s/batch=%dk/parallel=%d", t.name, batchRows>>10, parallel), func(b *testing.B) {
					measure(b, s, source, source.Table.Fields)
				})
			}
		}
		for name, ahead := range map[string]int64{"none": scan.NoAhead, "4M": 4 << 20, "64M": 64 << 20} {
			s, err := scan.New(scan.Options{Files: catalogtest.FromStore(store.Local{}), Ahead: ahead})
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%s/ahead=%s", t.name, name), func(b *testing.B) { measure(b, s, source, source.Table.Fields) })
		}
	}
}

// BenchmarkFilter shows what a filter costs beside decoding.
func BenchmarkFilter(b *testing.B) {
	source := onDisk(b, trainingBucket(250_000), 1)
	s, err := scan.New(scan.Options{Files: catalogtest.FromStore(store.Local{})})
	require.NoError(b, err)
	for _, text := range []string{"TRUE", "f0 >= 0", "label = 1", "f0 < 0.01", "i0 < 0"} {
		parsed, err := expr.Parse(text)
		require.NoError(b, err)
		filtered := source
		filtered.Filter, err = parsed.Bind(source.Table.Schema())
		require.NoError(b, err)
		b.Run(text, func(b *testing.B) { measure(b, s, filtered, source.Table.Fields) })
	}
}

// BenchmarkParts reads one bucket of the training table with one scan, and with eight scans of an
// eighth each, a batch of each in turn, as a shuffled run does.
func BenchmarkParts(b *testing.B) {
	source := onDisk(b, trainingBucket(250_000), 1)
	pool := &batch.Pool{}
	s, err := scan.New(scan.Options{Files: catalogtest.FromStore(store.Local{}), Memory: pool, Scratch: pool})
	require.NoError(b, err)
	for _, c := range []struct {
		name   string
		n      int64
		shared bool
	}{{"1", 1, false}, {"8", 8, false}, {"8-shared", 8, true}} {
		b.Run(c.name, func(b *testing.B) {
			before := cpu()
			for b.Loop() {
				sources, shared := parts(source, c.n), s.Share()
				if c.shared {
					sources = expectAll(shared, sources)
				}
				readers := make([]*scan.Reader, len(sources))
				for i, source := range sources {
					readers[i], err = s.Open(b.Context(), source, source.Table.Fields)
					require.NoError(b, err)
				}
				for more := true; more; {
					more = false
					for _, rdr := range readers {
						more = rdr.Next() || more
					}
				}
				for _, rdr := range readers {
					require.NoError(b, rdr.Err())
					rdr.Release()
				}
				shared.Close()
			}
			b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op")
		})
	}
}
