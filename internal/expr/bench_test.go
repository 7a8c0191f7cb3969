package expr

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

func BenchmarkEvaluate(b *testing.B) {
	const rows = 1 << 16
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "f", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "d", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
	}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range rows {
		if i%50 == 0 {
			for _, field := range builder.Fields() {
				field.AppendNull()
			}
			continue
		}
		builder.Field(0).(*array.Int64Builder).Append(r.Int64N(1000))
		builder.Field(1).(*array.Float32Builder).Append(r.Float32())
		builder.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("country-%d", r.IntN(200)))
		builder.Field(3).(*array.Date32Builder).Append(arrow.Date32(20000 + r.IntN(30)))
	}
	batch := builder.NewRecordBatch()
	defer batch.Release()
	for _, text := range []string{
		"i < 500", "f > 0.5", "s = 'country-7'", "s < 'country-5'", "i IN (1, 2, 3)",
		"i IN (1, 2, 3, 4, 5, 6, 7, 8, 9)", "s IN ('country-1', 'country-2')",
		"d >= DATE '2024-10-10' AND i < 100 AND s <> 'country-7'", "i < 100 OR f > 0.9 OR s = 'country-7'", "i IS NULL",
	} {
		filter := bind(b, text, schema)
		b.Run(text, func(b *testing.B) {
			var dst []int32
			b.ReportAllocs()
			for b.Loop() {
				var err error
				dst, err = filter.Evaluate(batch, dst, nil)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{
		"usual": "day >= DATE '2026-10-01' AND surface = 'home' AND (version < 3 OR country IN ('de', 'fr'))",
		"64KiB": "a IN (1" + strings.Repeat(", 12345", 9000) + ")",
		"deep":  strings.Repeat("(", maxDepth) + "a = 1" + strings.Repeat(")", maxDepth),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := Parse(text)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkValues evaluates expressions beside a loop that sums two slices.
func BenchmarkValues(b *testing.B) {
	const rows = 1 << 16
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "clicks", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "views", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	r := rand.New(rand.NewPCG(1, 2))
	for range rows {
		for _, field := range builder.Fields() {
			field.(*array.Int64Builder).AppendValues([]int64{r.Int64N(20)}, []bool{r.IntN(50) > 0})
		}
	}
	batch := builder.NewRecordBatch()
	defer batch.Release()
	perRow := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows)/float64(b.N), "ns/row")
	}
	b.Run("sum of slices", func(b *testing.B) {
		x, y := batch.Column(0).(*array.Int64).Int64Values(), batch.Column(1).(*array.Int64).Int64Values()
		for b.Loop() {
			out := make([]int64, rows)
			for i := range out {
				out[i] = x[i] + y[i]
			}
		}
		perRow(b)
	})
	for _, text := range []string{
		"clicks + views", "clicks / nullif(views, 0)", "CASE WHEN views > 0 THEN clicks / views ELSE 0 END", "CASE WHEN views > 10 THEN 'many' WHEN views > 0 THEN 'few' ELSE 'none' END",
		"CAST(clicks AS double)", "clicks > views AND views > 3",
	} {
		v, err := ParseValue(text)
		require.NoError(b, err)
		bound, err := v.Bind(schema)
		require.NoError(b, err)
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				values, err := bound.Evaluate(batch, memory.DefaultAllocator)
				require.NoError(b, err)
				values.Release()
			}
			perRow(b)
		})
	}
}
