package batch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

const (
	benchSource = 25_000 // rows of a file group
	benchRows   = 8192   // rows of a batch
	benchBatch  = 30     // batches before the references repeat
)

func benchValues() map[string]arrow.Array {
	floats := array.NewFloat32Builder(memory.DefaultAllocator)
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	ids := array.NewStringBuilder(memory.DefaultAllocator)
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	items := lists.ValueBuilder().(*array.Int64Builder)
	for i := range benchSource {
		floats.Append(float32(i))
		texts.Append(fmt.Sprintf("%02d", i%100))
		ids.Append(fmt.Sprintf("%032d", i))
		lists.Append(true)
		for k := range 50 {
			items.Append(int64(i + k))
		}
	}
	return map[string]arrow.Array{"1-float32": floats.NewArray(), "2-text2": texts.NewArray(), "3-text32": ids.NewArray(), "4-list50": lists.NewArray()}
}

// benchReferences returns the references of an outer join's batches: ten adjacent
// rows per request, or rows in random order.
func benchReferences(grouped bool) [][]int32 {
	rng := rand.New(rand.NewPCG(1, 2))
	batches := make([][]int32, benchBatch)
	for i := range batches {
		batches[i] = make([]int32, benchRows)
		for k := range batches[i] {
			at := int32(rng.IntN(benchSource-1) + 1)
			if grouped {
				at = int32((i*benchRows+k)/10 + 1)
			}
			batches[i][k] = at
		}
	}
	return batches
}

// benchGathers runs gather for all values and orders of references.
func benchGathers(b *testing.B, gather func(b *testing.B, values arrow.Array, indices []int32) arrow.Array) {
	b.Helper()
	for name, values := range benchValues() {
		for _, grouped := range []bool{true, false} {
			batches := benchReferences(grouped)
			order := map[bool]string{true: "grouped", false: "random"}[grouped]
			b.Run(name+"/"+order, func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					gather(b, values, batches[i%benchBatch]).Release()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
			})
		}
	}
}

func BenchmarkGather(b *testing.B) {
	benchGathers(b, func(b *testing.B, values arrow.Array, indices []int32) arrow.Array {
		b.Helper()
		out, err := batch.Gather(values.DataType(), []batch.Segment{{Values: values, Indices: indices}}, nil)
		require.NoError(b, err)
		return out
	})
}

// BenchmarkGatherNullRow gathers from a join's dictionary, whose row 0 is null, with
// and without rows that have no match.
func BenchmarkGatherNullRow(b *testing.B) {
	fields, columns := []string{}, []arrow.Array{}
	floats := benchValues()["1-float32"]
	for i := range 8 {
		column, err := batch.WithFirst(floats.DataType(), nil, []arrow.Array{floats}, memory.DefaultAllocator)
		if err != nil {
			b.Fatal(err)
		}
		fields, columns = append(fields, fmt.Sprint("f", i)), append(columns, column)
	}
	values, err := array.NewStructArray(columns, fields)
	if err != nil {
		b.Fatal(err)
	}
	for _, missing := range []int{0, 20} {
		batches := benchReferences(true)
		for _, indices := range batches {
			for k := 0; missing > 0 && k < len(indices); k += missing {
				indices[k] = 0
			}
		}
		b.Run(fmt.Sprintf("floats8/missing%d", missing), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				out, _ := batch.Gather(values.DataType(), []batch.Segment{{Values: values, Indices: batches[i%benchBatch]}}, nil)
				out.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows/8, "ns/value")
		})
	}
}

func BenchmarkAllocator(b *testing.B) {
	for name, mem := range map[string]memory.Allocator{"pool": &batch.Pool{}, "go": memory.DefaultAllocator} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mem.Free(mem.Allocate(64 << 10))
			}
		})
	}
}
