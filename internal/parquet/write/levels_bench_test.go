package write

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkListLevels makes the levels of 2,000 lists of 50 numbers without nulls.
func BenchmarkListLevels(b *testing.B) {
	const rows, items = 2000, 50
	build := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	for range rows {
		build.Append(true)
		for i := range items {
			build.ValueBuilder().(*array.Int64Builder).Append(int64(i))
		}
	}
	list := build.NewListArray()
	w := &codeWriter{column: &fieldNode{nullable: true, children: []*fieldNode{{nullable: true}}}}
	for b.Loop() {
		w.definitions, w.repetitions = w.definitions[:0], w.repetitions[:0]
		w.listLevels(list, list.ListValues())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows*items), "ns/value")
}
