package batch_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// BenchmarkGatherCodes makes a category of 8,192 rows: of texts with few values or many, and of codes, at
// consecutive and random rows.
func BenchmarkGatherCodes(b *testing.B) {
	const rows = 8192
	pool, at := &batch.Pool{}, make([]int32, rows)
	for i := range at {
		at[i] = int32(i * 5003 % rows)
	}
	for _, distinct := range []int{7, 150, rows} {
		builder := array.NewStringBuilder(memory.DefaultAllocator)
		for i := range rows {
			builder.Append(fmt.Sprintf("text %d", i*31%distinct))
		}
		texts := builder.NewArray()
		g := batch.NewGatherer(pool)
		codes, err := g.GatherCodes(texts.DataType(), []batch.Segment{{Values: texts, Rows: rows}})
		require.NoError(b, err)
		for form, values := range map[string]arrow.Array{"texts": texts, "codes": codes} {
			for order, of := range map[string]batch.Segment{"stored": {Values: values, Rows: rows}, "random": {Values: values, Indices: at}} {
				b.Run(fmt.Sprintf("%s/values=%d/%s", form, distinct, order), func(b *testing.B) {
					for b.Loop() {
						g := batch.NewGatherer(pool)
						out, err := g.GatherCodes(texts.DataType(), []batch.Segment{of})
						if err != nil {
							b.Fatal(err)
						}
						out.Release()
						g.Release()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
				})
			}
		}
	}
}
