package extsort_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/partition"
)

// features returns batches with a user, a history and two texts, and the bytes of all.
func features(rows, items int) (batches []arrow.RecordBatch, bytes int64) {
	const batchRows = 8192
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "user", Type: arrow.PrimitiveTypes.Int64},
		{Name: "history", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "country", Type: arrow.BinaryTypes.String},
		{Name: "device", Type: arrow.BinaryTypes.String},
	}, nil)
	r := rand.New(rand.NewPCG(1, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for range rows / batchRows {
		for range batchRows {
			b.Field(0).(*array.Int64Builder).Append(r.Int64())
			history := b.Field(1).(*array.ListBuilder)
			history.Append(true)
			for range r.IntN(2 * items) {
				history.ValueBuilder().(*array.Int64Builder).Append(r.Int64N(1_000_000))
			}
			b.Field(2).(*array.StringBuilder).Append("country " + strconv.Itoa(r.IntN(200)))
			b.Field(3).(*array.StringBuilder).Append("device " + strconv.Itoa(r.IntN(2000)))
		}
		one := b.NewRecordBatch()
		bytes += batch.Size(one)
		batches = append(batches, one)
	}
	return batches, bytes
}

// BenchmarkSort sorts rows into 16 buckets by user: in memory, and with a tenth of the memory.
func BenchmarkSort(b *testing.B) {
	const rows = 40 * 8192
	batches, bytes := features(rows, 50)
	for _, c := range []struct {
		name             string
		working          int64
		threads, buckets int
	}{{"memory", 1 << 30, 1, 16}, {"memory-2", 1 << 30, 2, 16}, {"disk", bytes / 10, 1, 16}, {"disk-2", bytes / 10, 2, 16}, {"disk-1024-buckets", bytes / 10, 1, 1024}} {
		b.Run(c.name, func(b *testing.B) {
			mem := batch.NewAllocator()
			disk, err := spool.Open(spool.Options{Folder: b.TempDir(), Memory: mem})
			if err != nil {
				b.Fatal(err)
			}
			layout := extsort.Layout{Key: []int{0}, Partition: []partition.By{{Transform: catalog.Transform{Kind: catalog.Bucket, N: c.buckets}}}}
			o := extsort.Options{
				Memory: mem, WorkingMemory: c.working, Threads: c.threads,
				Disk: func(what string) (extsort.RunStore, error) { return disk.Create(what) },
			}
			b.SetBytes(bytes)
			for b.Loop() {
				if got := sortAll(b, batches, layout, o); got != rows {
					b.Fatalf("%d rows", got)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// sortAll sorts batches and returns the number of rows read.
func sortAll(b *testing.B, batches []arrow.RecordBatch, layout extsort.Layout, o extsort.Options) (count int64) {
	b.Helper()
	s, err := extsort.New(batches[0].Schema(), layout, o)
	for i := 0; err == nil && i < len(batches); i++ {
		err = s.Add(b.Context(), batches[i])
	}
	if err != nil {
		b.Fatal(err)
	}
	got, err := s.Finish(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer got.Release()
	for i := range got.Partitions() {
		rows, err := got.Open(b.Context(), i)
		if err != nil {
			b.Fatal(err)
		}
		for rows.Next() {
			count += rows.RecordBatch().NumRows()
		}
		if rows.Err() != nil {
			b.Fatal(rows.Err())
		}
		rows.Release()
	}
	return count
}
