package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// CountNulls counts the nulls of a batch's arrays, and of all arrays in them. Arrow counts the
// nulls of a slice when it is first asked, and stores the number: a batch that several
// goroutines read is counted before.
func CountNulls(b arrow.RecordBatch) {
	for _, column := range b.Columns() {
		countNulls(column)
	}
}

func countNulls(a arrow.Array) {
	a.NullN()
	switch a := a.(type) {
	case *array.Struct:
		for i := range a.NumField() {
			countNulls(a.Field(i))
		}
	case *array.Dictionary:
		countNulls(a.Indices())
		countNulls(a.Dictionary())
	case *array.Map:
		countNulls(a.ListValues())
	case array.ListLike:
		countNulls(a.ListValues())
	}
}
