package scenario

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
)

// CheckCategories returns an error unless each column of a batch has the type of its field, and
// each category column has int32 codes and a proper dictionary. The dictionary must have the
// distinct values of the batch's rows, without nulls, in the order of their first rows.
func CheckCategories(b arrow.RecordBatch) error {
	for i, c := range b.Columns() {
		if !arrow.TypeEqual(c.DataType(), b.Schema().Field(i).Type) {
			return fmt.Errorf("column %s is %s, its field %s", b.ColumnName(i), c.DataType(), b.Schema().Field(i).Type)
		}
		if batch.IsCoded(c) {
			if err := checkCategory(c.(*array.Dictionary)); err != nil {
				return fmt.Errorf("column %s: %w", b.ColumnName(i), err)
			}
		}
	}
	return nil
}

func checkCategory(c *array.Dictionary) error {
	if of := batch.Coded(arrow.BinaryTypes.String); !arrow.TypeEqual(of, c.DataType()) {
		return fmt.Errorf("it is %s instead of %s", c.DataType(), of)
	}
	values, seen, next := c.Dictionary(), map[any]bool{}, 0
	for row := range c.Len() {
		if c.IsNull(row) {
			continue
		}
		switch at := c.GetValueIndex(row); {
		case at == next && at < values.Len() && values.IsValid(at) && !seen[Value(values, at)]:
			seen[Value(values, at)] = true
			next++
		case at < 0 || at >= next:
			return fmt.Errorf("row %d has code %d after %d values of %s", row, at, next, values)
		}
	}
	if next != values.Len() {
		return fmt.Errorf("the rows have %d values, the dictionary %d", next, values.Len())
	}
	return nil
}
