package joinertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/joiner"
)

// One bucket of the reference table: as many staging rows, ten training rows for each,
// in batches of one size.
const (
	benchStaging = 25_000
	benchBatch   = 8_192
)

// BenchKeys returns unsorted staging keys, and training keys: each staging key ten
// times, adjacent or in random order.
func BenchKeys(grouped bool) (staging, training []int64) {
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

// BenchText returns each key as a distinct text of 32 characters.
func BenchText(keys []int64) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = fmt.Sprintf("%032x", uint64(k)*0x9e3779b97f4a7c15)
	}
	return out
}

// BenchInput returns a stream of columns with the first as key, which is kept, too.
func BenchInput(b *testing.B, schema *arrow.Schema, columns ...arrow.Array) joiner.Input {
	b.Helper()
	var records []arrow.RecordBatch
	whole := array.NewRecordBatch(schema, columns, int64(columns[0].Len()))
	for from := int64(0); from < whole.NumRows(); from += benchBatch {
		records = append(records, whole.NewSlice(from, min(from+benchBatch, whole.NumRows())))
	}
	return joiner.Input{
		Open:    func(context.Context) (array.RecordReader, error) { return array.NewRecordReader(schema, records) },
		Key:     []int{0},
		Columns: []int{0},
	}
}

// BenchColumn returns a key column of numbers or texts.
func BenchColumn(keys []int64, text bool) (arrow.Field, arrow.Array) {
	if text {
		builder := array.NewStringBuilder(memory.DefaultAllocator)
		builder.AppendValues(BenchText(keys), nil)
		return arrow.Field{Name: "key", Type: arrow.BinaryTypes.String}, builder.NewArray()
	}
	builder := array.NewInt64Builder(memory.DefaultAllocator)
	builder.AppendValues(keys, nil)
	return arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int64}, builder.NewArray()
}
