package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The two forms in which T is delivered.
const (
	plain   = "plain"
	indexed = "indexed"
)

// T's shape (tables.py).
const (
	rowsPerRequest = 10 // on average
	missing        = 0.01
	history        = 50
	items          = 1_000_000
	users          = 250_000
	countries      = 200
	trainingFloats = 10
	stagingFloats  = 8
)

// ready has the batches of one form. A stream of n batches sends batch i modulo the number of those
// that exist.
type ready struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
}

// at returns batch i of a stream.
func (r ready) at(i int) arrow.RecordBatch { return r.batches[i%len(r.batches)] }

// total returns the totals of the first n batches of a stream.
func (r ready) total(n int) (t totals, err error) {
	for i := range n {
		if err := t.add(r.at(i)); err != nil {
			return t, err
		}
	}
	return t, nil
}

// draw returns the batches of each form: the same rows, which are those of T joined with its staging
// table, except that they are drawn again.
func draw(batches, rows int, seed uint64) (map[string]ready, error) {
	d := drawing{random: rand.New(rand.NewPCG(seed, 0)), names: names(countries)}
	forms := map[string]ready{}
	for range batches {
		lengths, requests := d.requests(rows)
		training := d.training(lengths, rows)
		features := d.features(len(lengths))
		plainColumns, err := features.columns(requests)
		if err != nil {
			return nil, err
		}
		column, err := features.dictionary(requests)
		if err != nil {
			return nil, err
		}
		extend(forms, plain, join(training, plainColumns))
		extend(forms, indexed, join(training, columns{[]arrow.Field{{Name: "staging", Type: column.DataType()}}, []arrow.Array{column}}))
	}
	return forms, nil
}

// load returns the batches of a file, an Arrow IPC stream.
func load(file string) (form ready, err error) {
	f, err := os.Open(file) //nolint:gosec // of a benchmark
	if err != nil {
		return form, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	from, err := ipc.NewReader(f)
	if err != nil {
		return form, err
	}
	defer from.Release()
	form.schema = from.Schema()
	for from.Next() {
		b := from.RecordBatch()
		b.Retain()
		form.batches = append(form.batches, b)
	}
	if len(form.batches) == 0 && from.Err() == nil {
		return form, errors.New("it has no batches")
	}
	return form, from.Err()
}

func extend(forms map[string]ready, name string, b arrow.RecordBatch) {
	forms[name] = ready{schema: b.Schema(), batches: append(forms[name].batches, b)}
}

// columns are columns of one length.
type columns struct {
	fields []arrow.Field
	arrays []arrow.Array
}

func (c *columns) add(name string, a arrow.Array) {
	c.fields, c.arrays = append(c.fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true}), append(c.arrays, a)
}

// join returns a batch of the columns of both.
func join(training, staging columns) arrow.RecordBatch {
	fields := append(append([]arrow.Field(nil), training.fields...), staging.fields...)
	arrays := append(append([]arrow.Array(nil), training.arrays...), staging.arrays...)
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(arrays[0].Len()))
}

// drawing draws rows.
type drawing struct {
	random *rand.Rand
	names  []string
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%c%c", 'A'+i/10, 'A'+i%10)
	}
	return out
}

// requests divides rows into requests: it returns the length of each request, and for each row the
// number of its request, from 1. Row 0 of an indexed column has the values for rows without a match.
func (d *drawing) requests(rows int) (lengths []int, of []int32) {
	for left := rows; left > 0; {
		length := min(left, 1+d.random.IntN(2*rowsPerRequest-1))
		left -= length
		lengths = append(lengths, length)
		for range length {
			of = append(of, int32(len(lengths)))
		}
	}
	return lengths, of
}

func (d *drawing) training(lengths []int, rows int) (c columns) {
	ids := make([]int64, 0, rows)
	for _, length := range lengths {
		id := int64(d.random.Uint64())
		for range length {
			ids = append(ids, id)
		}
	}
	c.add("request_id", numbers(ids, nil))
	c.add("item_id", numbers(d.integers(rows, items), nil))
	labels := make([]int32, rows)
	for i := range labels {
		if d.random.Float32() < 0.04 {
			labels[i] = 1
		}
	}
	c.add("label", numbers(labels, nil))
	for i := range trainingFloats {
		c.add(fmt.Sprintf("f%d", i), numbers(d.floats(rows), nil))
	}
	for i, limit := range []int64{24, 100, 5_000, 1_000_000, 1 << 40} {
		c.add(fmt.Sprintf("i%d", i), numbers(d.integers(rows, limit), nil))
	}
	return c
}

func (d *drawing) integers(n int, limit int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = d.random.Int64N(limit)
	}
	return out
}

// floats returns multiples of 2^-24 below 1: sums of them in float64 are exact, in any order.
func (d *drawing) floats(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = d.random.Float32()
	}
	return out
}

// features are the staging rows of a batch. Row 0 and rows without a match are null.
type features struct {
	known     []bool
	users     []int64
	floats    [stagingFloats][]float32
	history   []int64
	countries []string
}

func (d *drawing) features(requests int) features {
	n := requests + 1
	f := features{known: make([]bool, n), users: d.integers(n, users), history: d.integers(n*history, items), countries: make([]string, n)}
	for i := range f.floats {
		f.floats[i] = d.floats(n)
	}
	for row := range n {
		f.known[row] = row > 0 && d.random.Float32() >= missing
		f.countries[row] = d.names[d.random.IntN(len(d.names))]
	}
	return f
}

// columns returns the staging columns of rows with these requests.
func (f features) columns(requests []int32) (c columns, err error) {
	known := gather(f.known, requests, nil)
	c.add("user_id", numbers(gather(f.users, requests, known), known))
	for i, values := range f.floats {
		c.add(fmt.Sprintf("u%d", i), numbers(gather(values, requests, known), known))
	}
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	defer lists.Release()
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	defer texts.Release()
	values, ok := lists.ValueBuilder().(*array.Int64Builder)
	if !ok {
		return c, fmt.Errorf("a list of int64 has a builder of type %T", lists.ValueBuilder())
	}
	values.Reserve(len(requests) * history)
	for i, request := range requests {
		lists.Append(known[i])
		if known[i] {
			values.AppendValues(f.history[int(request)*history:][:history], nil)
		}
	}
	texts.AppendValues(gather(f.countries, requests, known), known)
	c.add("history", lists.NewArray())
	c.add("country", texts.NewArray())
	return c, nil
}

// dictionary returns the indexed column of rows with these requests.
func (f features) dictionary(requests []int32) (arrow.Array, error) {
	all := make([]int32, len(f.known))
	for i := range all {
		all[i] = int32(i)
	}
	c, err := f.columns(all)
	if err != nil {
		return nil, err
	}
	rows, err := array.NewStructArrayWithFields(c.arrays, c.fields)
	if err != nil {
		return nil, err
	}
	of := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: rows.DataType()}
	return array.NewDictionaryArray(of, numbers(requests, nil), rows), nil
}

// gather returns the values at indexes, and zero where known is false.
func gather[T any](from []T, at []int32, known []bool) []T {
	out := make([]T, len(at))
	for i, index := range at {
		if known == nil || known[i] {
			out[i] = from[index]
		}
	}
	return out
}

// numbers returns an array of values, which are null where known is false.
func numbers[T int32 | int64 | float32](values []T, known []bool) arrow.Array {
	build := func(b array.Builder) arrow.Array {
		defer b.Release()
		return b.NewArray()
	}
	switch v := any(values).(type) {
	case []int32:
		b := array.NewInt32Builder(memory.DefaultAllocator)
		b.AppendValues(v, known)
		return build(b)
	case []int64:
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues(v, known)
		return build(b)
	case []float32:
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		b.AppendValues(v, known)
		return build(b)
	default:
		return nil
	}
}
