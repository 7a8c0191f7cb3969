package datafile

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// NewTable returns the future state and the columns of a new table for rows of a schema. All
// columns are optional, and there are no partitions and no sort order.
//
// If the schema has columns that a table cannot have, the error is Invalid and lists all of them.
func NewTable(name string, version int, input *arrow.Schema) (*commit.TableState, []commit.NewColumn, error) {
	conformed, err := conform.New(input)
	if err != nil {
		return nil, nil, err
	}
	state := &commit.TableState{Table: &catalog.Table{Name: name, Specs: map[int]catalog.Spec{}, SortOrders: map[int]catalog.SortOrder{}}, Version: version}
	var columns []commit.NewColumn
	numbers := fieldNumbers{version: version}
	var faults []fault.Field
	paths, all := pathsOf{}, conformed.Schema().Fields()
	for i, f := range all {
		if refused := newName(f, i, fieldNames(all), paths); refused != "" {
			faults = append(faults, fault.Field{Field: "columns", Message: fmt.Sprintf("column %q: %s", f.Name, refused)})
			continue
		}
		column, typed, err := numbers.column(f, input.Field(i))
		if err != nil {
			faults = append(faults, fault.Field{Field: "columns", Message: fmt.Sprintf("column %q: %s", f.Name, fault.As(err).Message)})
			continue
		}
		columns = append(columns, column)
		field := catalog.Field{ID: column.ID, Name: f.Name, Type: f.Type}
		if arrow.IsNested(typed.ID()) {
			field.Stored = typed
		}
		state.Table.Fields = append(state.Table.Fields, field)
		if column.Type == uuidType {
			state.UUIDs = append(state.UUIDs, column.ID)
		}
	}
	state.LastColumn = numbers.last
	if len(faults) > 0 {
		return nil, nil, fault.As(fault.Fields(faults)).WithRemedy("cast, rename or leave out these columns")
	}
	return state, columns, nil
}
