package tensor_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/tensor"
)

// benchRows is a usual number of rows of a step.
const benchRows = 8192

// idColumn returns distinct integers.
func idColumn(random *rand.Rand, rows int) arrow.Array {
	b := array.NewInt64Builder(batch.Default())
	for range rows {
		b.Append(random.Int64())
	}
	return b.NewArray()
}

// floatColumn returns floats, of which a share is null.
func floatColumn(random *rand.Rand, rows int, nulls float64) arrow.Array {
	b := array.NewFloat32Builder(batch.Default())
	for range rows {
		if random.Float64() < nulls {
			b.AppendNull()
		} else {
			b.Append(random.Float32())
		}
	}
	return b.NewArray()
}

// wordColumn returns texts with 1,000 different values.
func wordColumn(random *rand.Rand, rows int) arrow.Array {
	b := array.NewStringBuilder(batch.Default())
	for range rows {
		b.Append(fmt.Sprintf("word %d", random.IntN(1000)))
	}
	return b.NewArray()
}

// historyColumn returns lists of 50 integers.
func historyColumn(random *rand.Rand, rows int) arrow.Array {
	b := array.NewListBuilder(batch.Default(), arrow.PrimitiveTypes.Int64)
	values := b.ValueBuilder().(*array.Int64Builder)
	for range rows {
		b.Append(true)
		for range 50 {
			values.Append(random.Int64())
		}
	}
	return b.NewArray()
}

// benchTable is a batch and its plan.
type benchTable struct {
	fields       []arrow.Field
	arrays       []arrow.Array
	plans        []string
	packs        string
	vocabularies []*tensor.Vocabulary
}

func (t *benchTable) add(a arrow.Array, plan string, count int) *benchTable {
	for range count {
		name := fmt.Sprintf("c%d", len(t.fields))
		t.fields = append(t.fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true})
		t.arrays, t.plans = append(t.arrays, a), append(t.plans, `{"name":"`+name+`",`+plan+`}`)
	}
	return t
}

func (t *benchTable) packed(dtype string) *benchTable {
	names := make([]string, len(t.fields))
	for i, f := range t.fields {
		names[i] = `"` + f.Name + `"`
		t.plans[i] = strings.Replace(t.plans[i], `"dtype":"float32"`, `"dtype":"`+dtype+`"`, 1)
	}
	t.packs = `{"name":"x","entry":"","columns":[` + strings.Join(names, ",") + `]}`
	return t
}

// BenchmarkFill measures forms of columns, and a batch of T's shape: seven ids, a history, 18 floats and a label. "copy"
// copies as many bytes as the block has.
func BenchmarkFill(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	ids, floats, holes := idColumn(random, benchRows), floatColumn(random, benchRows, 0), floatColumn(random, benchRows, 0.1)
	history, words := historyColumn(random, benchRows), wordColumn(random, benchRows)
	const (
		float = `"form":"values","source":"float32","conversion":"same","dtype":"float32",`
		hash  = `"form":"values","conversion":"hash","buckets":100000,"dtype":"int64","nulls":"corrupt",`
		list  = `"form":"lists","source":"int64","conversion":"same","dtype":"int64","nulls":"empty","element_nulls":"error"`
	)
	whole, filled := float+`"nulls":"corrupt"`, float+`"nulls":"fill","fill":`+fill(float32(0))
	vocabulary := func() *tensor.Vocabulary {
		values, codes := array.NewStringBuilder(batch.Default()), array.NewInt64Builder(batch.Default())
		for i := range int64(1000) {
			values.Append(fmt.Sprintf("word %d", i))
			codes.Append(i)
		}
		v, err := tensor.NewVocabulary(values.NewArray(), codes.NewInt64Array())
		require.NoError(b, err)
		return v
	}()
	lookup := `"form":"values","source":"string","conversion":"lookup","vocabulary":0,"dtype":"int64","nulls":"corrupt"`
	half := strings.Replace(whole, `"dtype":"float32"`, `"dtype":"float16"`, 1)
	table := func() *benchTable { return &benchTable{vocabularies: []*tensor.Vocabulary{vocabulary}} }
	for _, bench := range []struct {
		name  string
		table *benchTable
	}{
		{"int64", table().add(ids, plain, 1)},
		{"float32", table().add(floats, whole, 1)},
		{"float32 with nulls", table().add(holes, filled, 1)},
		{"float32 with nulls and mask", table().add(holes, filled+`,"mask":true`, 1)},
		{"float32 as float16", table().add(floats, half, 1)},
		{"list of 50", table().add(history, list, 1)},
		{"hash of int64", table().add(ids, hash+`"source":"int64"`, 1)},
		{"hash of string", table().add(words, hash+`"source":"string"`, 1)},
		{"lookup of string", table().add(words, lookup, 1)},
		{"18 floats packed", table().add(floats, whole, 18).packed("float32")},
		{"18 floats packed as float16", table().add(floats, whole, 18).packed("float16")},
		{"T", table().add(ids, plain, 7).add(history, list, 1).add(holes, filled, 18).add(floats, whole, 1)},
	} {
		rows := array.NewRecordBatch(arrow.NewSchema(bench.table.fields, nil), bench.table.arrays, benchRows)
		plan, err := tensor.ReadPlan([]byte(`{"columns":[`+strings.Join(bench.table.plans, ",")+`],"packs":[`+bench.table.packs+`]}`), bench.table.vocabularies)
		require.NoError(b, err)
		layout, err := tensor.Compile(rows.Schema(), plan)
		require.NoError(b, err)
		sizes, err := layout.Size(rows)
		require.NoError(b, err)
		block, source := make([]byte, sizes.Bytes), make([]byte, sizes.Bytes)
		perRow := func(b *testing.B) {
			b.Helper()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		}
		b.Run(bench.name+"/fill", func(b *testing.B) {
			b.SetBytes(sizes.Bytes)
			b.ReportAllocs()
			fillRepeatedly(b, layout, rows, block)
			perRow(b)
		})
		b.Run(bench.name+"/copy", func(b *testing.B) {
			b.SetBytes(sizes.Bytes)
			for b.Loop() {
				copy(block, source)
			}
			perRow(b)
		})
	}
}

// BenchmarkExpand fills the block of T's staging columns, a history and 18 floats, for ten rows of each request: from
// the indexed batch, and from the plain batch that the lane would have to make first.
func BenchmarkExpand(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	const distinct = benchRows / 10
	table := (&benchTable{}).
		add(historyColumn(random, distinct), `"form":"lists","source":"int64","conversion":"same","dtype":"int64","nulls":"empty","element_nulls":"error"`, 1).
		add(floatColumn(random, distinct, 0.01), `"form":"values","source":"float32","conversion":"same","dtype":"float32","nulls":"fill","fill":`+fill(float32(0)), 18)
	references := array.NewInt32Builder(batch.Default())
	for i := range int32(benchRows) {
		references.Append(min(i/10, distinct-1))
	}
	rows := array.NewRecordBatch(arrow.NewSchema(table.fields, nil), table.arrays, distinct)
	indexed := indexedBy(rows, references.NewInt32Array())
	plan, err := tensor.ReadPlan([]byte(`{"columns":[`+strings.Join(table.plans, ",")+`]}`), nil)
	require.NoError(b, err)
	for name, rows := range map[string]arrow.RecordBatch{"indexed": indexed, "plain": expandedByArrow(b, indexed)} {
		layout, err := tensor.Compile(rows.Schema(), plan)
		require.NoError(b, err)
		sizes, err := layout.Size(rows)
		require.NoError(b, err)
		block := make([]byte, sizes.Bytes)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(sizes.Bytes)
			b.ReportAllocs()
			fillRepeatedly(b, layout, rows, block)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
		})
	}
}

// fillRepeatedly fills the block of a batch as often as the benchmark needs.
func fillRepeatedly(b *testing.B, layout *tensor.Layout, rows arrow.RecordBatch, block []byte) {
	b.Helper()
	for b.Loop() {
		sizes, err := layout.Size(rows)
		if err == nil {
			err = layout.Fill(rows, sizes, block, nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
