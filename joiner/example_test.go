package joiner_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/joiner"
)

// earlier is a custom strategy: a key matches the staging row with the greatest key that is
// not above it.
type earlier struct{}

// Index sorts the staging rows by key. It reserves the row numbers, which it keeps, before
// it allocates them.
func (earlier) Index(_ context.Context, keys []arrow.Array, grow func(bytes int64) error) (joiner.Finder, error) {
	column := keys[0].(*array.Int64)
	if err := grow(4 * int64(column.Len())); err != nil {
		return nil, err
	}
	f := &earlierFinder{keys: column}
	for row := range column.Len() {
		if column.IsValid(row) {
			f.rows = append(f.rows, int32(row))
		}
	}
	slices.SortStableFunc(f.rows, func(a, b int32) int { return f.compare(a, column.Value(int(b))) })
	return f, nil
}

// earlierFinder is immutable, since several joins use it at once.
type earlierFinder struct {
	keys *array.Int64
	rows []int32 // in the order of their keys
}

func (f *earlierFinder) compare(row int32, key int64) int {
	switch own := f.keys.Value(int(row)); {
	case own < key:
		return -1
	case own > key:
		return 1
	default:
		return 0
	}
}

// Find searches for the key, or else takes the row before it. Results for rows with a null
// key are ignored.
func (f *earlierFinder) Find(_ context.Context, keys []arrow.Array, found []int32) error {
	wanted := keys[0].(*array.Int64)
	for i := range found {
		at, exact := slices.BinarySearchFunc(f.rows, wanted.Value(i), f.compare)
		if !exact {
			at--
		}
		found[i] = -1
		if at >= 0 {
			found[i] = f.rows[at]
		}
	}
	return nil
}

// A custom strategy is passed to Build. Here, prices hold from a day on, and each impression
// finds the price of its day.
func ExampleCustom() {
	ctx := context.Background()
	prices := input([]string{"day", "price"}, []int64{20, 10, 30}, []int64{7, 5, 9})
	impressions := input([]string{"day", "item"}, []int64{9, 10, 12, 35}, []int64{1, 2, 3, 4})
	reader, err := joiner.Join(ctx, impressions, []joiner.Probe{{
		Rule:    joiner.Rule{Name: "prices"},
		Key:     []int{0},
		Columns: []arrow.Field{{Name: "price", Type: arrow.PrimitiveTypes.Int64}},
		BuildSide: func(ctx context.Context) (joiner.Probeable, error) {
			return joiner.Build(ctx, prices, joiner.BuildSpec{Name: "prices", Custom: earlier{}}, joiner.Options{})
		},
	}}, joiner.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Release()
	for reader.Next() {
		b := reader.RecordBatch()
		references := b.Column(1).(*array.Dictionary)
		price := references.Dictionary().(*array.Struct).Field(0)
		for row := range int(b.NumRows()) {
			fmt.Println("item", b.Column(0).ValueStr(row), "price", price.ValueStr(references.GetValueIndex(row)))
		}
	}
	// Output:
	// item 1 price (null)
	// item 2 price 5
	// item 3 price 5
	// item 4 price 9
}

// input returns a stream of one batch, keyed on its first column; the second is in the
// result.
func input(names []string, columns ...[]int64) joiner.Input {
	fields, arrays := make([]arrow.Field, len(names)), make([]arrow.Array, len(names))
	for i, name := range names {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues(columns[i], nil)
		fields[i], arrays[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64}, b.NewArray()
	}
	schema := arrow.NewSchema(fields, nil)
	return joiner.Input{
		Key: []int{0}, Columns: []int{1},
		Open: func(context.Context) (array.RecordReader, error) {
			return array.NewRecordReader(schema, []arrow.RecordBatch{array.NewRecordBatch(schema, arrays, int64(len(columns[0])))})
		},
	}
}
