package main

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// totals are the sums over all columns of batches. A client that has the same totals as the server
// has received every value. Lists add their elements, strings their lengths, and dictionaries both
// their indices and their values; nulls are zero.
type totals struct {
	Rows   int64   `json:"rows"`
	Ints   int64   `json:"ints"` // wraps, like Arrow's sums
	Floats float64 `json:"floats"`
}

// add adds all columns of a batch.
func (t *totals) add(b arrow.RecordBatch) error {
	t.Rows += b.NumRows()
	for _, column := range b.Columns() {
		if err := t.column(column); err != nil {
			return err
		}
	}
	return nil
}

func (t *totals) column(a arrow.Array) error {
	switch a := a.(type) {
	case *array.Int64:
		for _, v := range a.Int64Values() {
			t.Ints += v
		}
	case *array.Int32:
		for _, v := range a.Int32Values() {
			t.Ints += int64(v)
		}
	case *array.Float32:
		sum := 0.0
		for _, v := range a.Float32Values() {
			sum += float64(v)
		}
		t.Floats += sum
	case *array.String:
		t.Ints += int64(len(a.ValueBytes()))
	case *array.List:
		return t.column(a.ListValues())
	case *array.Struct:
		for i := range a.NumField() {
			if err := t.column(a.Field(i)); err != nil {
				return err
			}
		}
	case *array.Dictionary:
		if err := t.column(a.Indices()); err != nil {
			return err
		}
		return t.column(a.Dictionary())
	default:
		return fmt.Errorf("a column of type %s is not summed", a.DataType())
	}
	return nil
}
