package joiner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// BenchmarkJoin measures build and probe together, per training row.
func BenchmarkJoin(b *testing.B) {
	for _, text := range []bool{false, true} {
		for _, grouped := range []bool{true, false} {
			name := map[bool]string{false: "int64", true: "string32"}[text] + map[bool]string{true: "/grouped", false: "/random"}[grouped]
			b.Run(name, func(b *testing.B) {
				s, t := joinertest.BenchKeys(grouped)
				field, array := joinertest.BenchColumn(s, text)
				staging := joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), array)
				_, array = joinertest.BenchColumn(t, text)
				training := joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), array)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					built, err := joiner.Build(b.Context(), staging, joiner.BuildSpec{Name: "s"}, joiner.Options{})
					require.NoError(b, err)
					require.EqualValues(b, len(t), benchJoin(b, training, field, built))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(t)), "ns/row")
			})
		}
	}
}

// BenchmarkStrategies measures build and probe together, per training row, with sorted
// staging keys: training keys in the same order, ten rows per key; in random order of
// groups of ten; and in random order.
func BenchmarkStrategies(b *testing.B) {
	for _, order := range []string{"sorted", "grouped", "random"} {
		for _, text := range []bool{false, true} {
			staging, training := joinertest.BenchKeys(order != "random")
			slices.Sort(staging)
			if order == "sorted" {
				slices.Sort(training)
			}
			field, column := joinertest.BenchColumn(staging, text)
			in := joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), column)
			if text {
				sorted := joinertest.BenchText(staging)
				slices.Sort(sorted)
				texts := array.NewStringBuilder(memory.DefaultAllocator)
				texts.AppendValues(sorted, nil)
				in = joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), texts.NewArray())
			}
			_, column = joinertest.BenchColumn(training, text)
			if text && order == "sorted" {
				sorted := joinertest.BenchText(training)
				slices.Sort(sorted)
				texts := array.NewStringBuilder(memory.DefaultAllocator)
				texts.AppendValues(sorted, nil)
				column = texts.NewArray()
			}
			stream := joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), column)
			for name, strategy := range map[string]rule.Strategy{"auto": rule.StrategyAuto, "index": rule.StrategyIndex, "merge": rule.StrategyMerge, "zip": rule.StrategyZip} {
				b.Run(fmt.Sprintf("%s/%s/%s", order, field.Type, name), func(b *testing.B) {
					for b.Loop() {
						built, err := joiner.Build(b.Context(), in, joiner.BuildSpec{Name: "s", Strategy: strategy}, joiner.Options{})
						require.NoError(b, err)
						require.EqualValues(b, len(training), benchJoin(b, stream, field, built))
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(training)), "ns/row")
				})
			}
		}
	}
}

// benchJoin joins a stream with a build side, which it releases, and returns the number
// of rows.
func benchJoin(b *testing.B, training joiner.Input, key arrow.Field, built *joiner.BuildSide) (rows int64) {
	b.Helper()
	reader, err := joiner.Join(b.Context(), training, []joiner.Probe{{
		Rule: joiner.Rule{Name: "s", Missing: rule.MissingError}, Key: []int{0}, Columns: []arrow.Field{key},
		BuildSide: func(context.Context) (joiner.Probeable, error) { return built, nil },
	}}, joiner.Options{})
	require.NoError(b, err)
	defer reader.Release()
	for reader.Next() {
		rows += reader.RecordBatch().NumRows()
	}
	require.NoError(b, reader.Err())
	return rows
}
