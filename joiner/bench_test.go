package joiner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
)

// One bucket of the reference table: as many staging rows, ten training rows
// to each, in batches of one size.
const (
	benchStaging = 25_000
	benchBatch   = 8_192
)

// benchKeys returns staging keys without order, and training keys: each
// staging key ten times, as neighbours or in random order.
func benchKeys(grouped bool) (staging, training []int64) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range benchStaging {
		staging = append(staging, int64(i)*16)
	}
	r.Shuffle(len(staging), func(i, j int) { staging[i], staging[j] = staging[j], staging[i] })
	for _, i := range r.Perm(benchStaging) {
		for range 10 {
			training = append(training, staging[i])
		}
	}
	if !grouped {
		r.Shuffle(len(training), func(i, j int) { training[i], training[j] = training[j], training[i] })
	}
	return staging, training
}

func benchText(keys []int64) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = fmt.Sprintf("%032x", uint64(k)*seedA)
	}
	return out
}

func benchInput(b *testing.B, schema *arrow.Schema, columns ...arrow.Array) Input {
	b.Helper()
	var records []arrow.RecordBatch
	whole := array.NewRecordBatch(schema, columns, int64(columns[0].Len()))
	for from := int64(0); from < whole.NumRows(); from += benchBatch {
		records = append(records, whole.NewSlice(from, min(from+benchBatch, whole.NumRows())))
	}
	return Input{
		Open:    func(context.Context) (array.RecordReader, error) { return array.NewRecordReader(schema, records) },
		Key:     []int{0},
		Columns: []int{0},
	}
}

func benchColumn(keys []int64, text bool) (arrow.Field, arrow.Array) {
	if text {
		builder := array.NewStringBuilder(memory.DefaultAllocator)
		builder.AppendValues(benchText(keys), nil)
		return arrow.Field{Name: "key", Type: arrow.BinaryTypes.String}, builder.NewArray()
	}
	builder := array.NewInt64Builder(memory.DefaultAllocator)
	builder.AppendValues(keys, nil)
	return arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64}, builder.NewArray()
}

// BenchmarkJoin measures build and probe together, per training row.
func BenchmarkJoin(b *testing.B) {
	for _, text := range []bool{false, true} {
		for _, grouped := range []bool{true, false} {
			name := map[bool]string{false: "int64", true: "string32"}[text] + map[bool]string{true: "/grouped", false: "/random"}[grouped]
			b.Run(name, func(b *testing.B) {
				s, t := benchKeys(grouped)
				field, array := benchColumn(s, text)
				staging := benchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), array)
				_, array = benchColumn(t, text)
				training := benchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), array)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					side, err := Build(b.Context(), staging, BuildSpec{Name: "s"}, Options{})
					require.NoError(b, err)
					require.EqualValues(b, len(t), benchJoin(b, training, field, side))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(t)), "ns/row")
			})
		}
	}
}

// BenchmarkIndex measures the index alone, built and probed, per training row,
// beside a Go map that does the same.
func BenchmarkIndex(b *testing.B) {
	for _, order := range []string{"grouped", "random"} {
		staging, training := benchKeys(order == "grouped")
		refs := make([]int32, len(training))
		report := func(b *testing.B) {
			b.Helper()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(training)), "ns/row")
		}
		b.Run(order+"/index", func(b *testing.B) {
			for b.Loop() {
				x := index{integral: true, keys: vector{ints: staging}, slots: make([]uint32, slotsFor(benchStaging))}
				for i := range staging {
					x.add(int32(i))
				}
				x.lookupInts(training, refs)
			}
			report(b)
		})
		b.Run(order+"/map", func(b *testing.B) {
			for b.Loop() {
				x := make(map[int64]int32, benchStaging)
				for i, key := range staging {
					x[key] = int32(i) + 1
				}
				for i, key := range training {
					refs[i] = x[key]
				}
			}
			report(b)
		})
	}
}

// BenchmarkStrategies measures build and probe together, per training row, of
// sorted staging keys: training keys in the same order, ten rows to a key,
// without order but ten neighbours to a key, and without any order.
func BenchmarkStrategies(b *testing.B) {
	for _, order := range []string{"sorted", "grouped", "random"} {
		for _, text := range []bool{false, true} {
			staging, training := benchKeys(order != "random")
			slices.Sort(staging)
			if order == "sorted" {
				slices.Sort(training)
			}
			field, column := benchColumn(staging, text)
			in := benchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), column)
			if text {
				sorted := benchText(staging)
				slices.Sort(sorted)
				texts := array.NewStringBuilder(memory.DefaultAllocator)
				texts.AppendValues(sorted, nil)
				in = benchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), texts.NewArray())
			}
			_, column = benchColumn(training, text)
			if text && order == "sorted" {
				sorted := benchText(training)
				slices.Sort(sorted)
				texts := array.NewStringBuilder(memory.DefaultAllocator)
				texts.AppendValues(sorted, nil)
				column = texts.NewArray()
			}
			stream := benchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), column)
			for name, strategy := range map[string]rule.Strategy{"auto": rule.StrategyAuto, "index": rule.StrategyIndex, "merge": rule.StrategyMerge, "zip": rule.StrategyZip} {
				b.Run(fmt.Sprintf("%s/%s/%s", order, field.Type, name), func(b *testing.B) {
					for b.Loop() {
						side, err := Build(b.Context(), in, BuildSpec{Name: "s", Strategy: strategy}, Options{})
						require.NoError(b, err)
						require.EqualValues(b, len(training), benchJoin(b, stream, field, side))
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(training)), "ns/row")
				})
			}
		}
	}
}

// benchJoin joins a stream with a side, which it releases, and returns its rows.
func benchJoin(b *testing.B, training Input, key arrow.Field, side *BuildSide) (rows int64) {
	b.Helper()
	reader, err := Join(b.Context(), training, []Probe{{
		Rule: Rule{Name: "s", Missing: rule.MissingError}, Key: []int{0}, Columns: []arrow.Field{key},
		BuildSide: func(context.Context) (Probeable, error) { return side, nil },
	}}, Options{})
	require.NoError(b, err)
	defer reader.Release()
	for reader.Next() {
		rows += reader.RecordBatch().NumRows()
	}
	require.NoError(b, reader.Err())
	return rows
}
