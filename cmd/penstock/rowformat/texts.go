package rowformat

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// texts writes categories as plain texts, because the batches of a stream can have different
// dictionaries, while a file has one dictionary per column, and text formats have no dictionaries.
type texts struct {
	of     Writer
	schema *arrow.Schema
}

// withTexts returns a schema with texts instead of categories, or the same schema if it has none.
func withTexts(schema *arrow.Schema) *arrow.Schema {
	fields, some := schema.Fields(), false
	for i, f := range fields {
		fields[i].Type = batch.ValueType(f.Type)
		some = some || fields[i].Type != f.Type
	}
	if !some {
		return schema
	}
	return arrow.NewSchema(fields, nil)
}

// Write implements Writer.
func (t texts) Write(rows arrow.RecordBatch) error {
	columns := make([]arrow.Array, rows.NumCols())
	for i, c := range rows.Columns() {
		if columns[i] = c; !batch.IsCoded(c) {
			continue
		}
		values, err := batch.Gather(t.schema.Field(i).Type, []batch.Segment{{Values: c, Rows: c.Len()}}, batch.Default())
		if err != nil {
			return fault.Op(err, "write column %s", rows.ColumnName(i))
		}
		defer values.Release()
		columns[i] = values
	}
	plain := array.NewRecordBatch(t.schema, columns, rows.NumRows())
	defer plain.Release()
	return t.of.Write(plain)
}

// Close implements Writer.
func (t texts) Close() error { return t.of.Close() }
