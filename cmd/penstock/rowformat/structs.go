package rowformat

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// structs writes each indexed column as a plain struct column. It does so because a file has one
// dictionary per column, while each batch of a stream can have a different dictionary.
type structs struct{ plain Writer }

// inStructs returns the schema that structs writes.
func inStructs(schema *arrow.Schema) *arrow.Schema {
	fields := schema.Fields()
	for i, f := range fields {
		if indexed, ok := f.Type.(*arrow.DictionaryType); ok {
			fields[i].Type = indexed.ValueType
		}
	}
	return arrow.NewSchema(fields, nil)
}

// Write implements Writer.
func (s structs) Write(rows arrow.RecordBatch) error {
	columns := make([]arrow.Array, rows.NumCols())
	for i, c := range rows.Columns() {
		indexed, ok := c.(*array.Dictionary)
		if !ok {
			columns[i] = c
			continue
		}
		at, ok := indexed.Indices().(*array.Int32)
		if !ok {
			return fault.New(fault.Internal, "column %s is indexed by %s, not by int32", rows.ColumnName(i), indexed.Indices().DataType())
		}
		taken, err := batch.Take(indexed.Dictionary(), at.Int32Values(), batch.Default())
		if err != nil {
			return fault.Op(err, "write column %s", rows.ColumnName(i))
		}
		defer taken.Release()
		columns[i] = taken
	}
	plain := array.NewRecordBatch(inStructs(rows.Schema()), columns, rows.NumRows())
	defer plain.Release()
	return s.plain.Write(plain)
}

// Close implements Writer.
func (s structs) Close() error { return s.plain.Close() }
