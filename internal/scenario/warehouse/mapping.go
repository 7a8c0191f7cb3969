package warehouse

import (
	"encoding/json"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
)

// mapping is a table's name mapping, in the form of the table's property.
type mapping []mapped

type mapped struct {
	ID     int      `json:"field-id"`
	Names  []string `json:"names"`
	Fields mapping  `json:"fields,omitempty"`
}

// with returns the mapping with the names of more fields added. It returns false if the mapping
// already has one of the names for another field.
func (m mapping) with(fields []iceberg.NestedField) (mapping, bool) {
	out := slices.Clone(m)
	for _, f := range fields {
		if slices.ContainsFunc(out, func(x mapped) bool { return x.ID != f.ID && slices.Contains(x.Names, f.Name) }) {
			return nil, false
		}
		at := slices.IndexFunc(out, func(x mapped) bool { return x.ID == f.ID })
		if at < 0 {
			at = len(out)
			out = append(out, mapped{ID: f.ID})
		}
		x := out[at]
		if !slices.Contains(x.Names, f.Name) {
			x.Names = append(slices.Clone(x.Names), f.Name)
		}
		if nested, ok := f.Type.(iceberg.NestedType); ok {
			if x.Fields, ok = x.Fields.with(nested.Fields()); !ok {
				return nil, false
			}
		}
		out[at] = x
	}
	return out, true
}

// migrate removes the field ids of a file, if the table's name mapping can define them. The
// mapping does not have dropped columns.
func (w *table) migrate(columns []physical, rows arrow.RecordBatch) arrow.RecordBatch {
	var fields []iceberg.NestedField
	for _, c := range columns {
		if c.from != gone {
			fields = append(fields, c.NestedField)
		}
	}
	names, ok := w.names.with(fields)
	if !ok {
		rows.Retain()
		return rows
	}
	w.names, w.withoutIDs = names, w.withoutIDs+1
	bare := make([]arrow.Field, len(columns))
	values := make([]arrow.Array, len(columns))
	for i, f := range rows.Schema().Fields() {
		bare[i] = withoutID(f)
		values[i] = array.MakeFromData(withType(rows.Column(i).Data(), bare[i].Type))
		defer values[i].Release()
	}
	return array.NewRecordBatch(arrow.NewSchema(bare, nil), values, rows.NumRows())
}

// withoutID removes the field ids of a field and of the fields inside it.
func withoutID(f arrow.Field) arrow.Field {
	f.Metadata = arrow.Metadata{}
	switch t := f.Type.(type) {
	case *arrow.ListType:
		f.Type = arrow.ListOfField(withoutID(t.ElemField()))
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(withoutID(t.KeyField()), withoutID(t.ItemField()))
	case *arrow.StructType:
		fields := slices.Clone(t.Fields())
		for i := range fields {
			fields[i] = withoutID(fields[i])
		}
		f.Type = arrow.StructOf(fields...)
	}
	return f
}

// setMapping sets the table property that has the name mapping, if a file needs it.
func (w *table) setMapping() error {
	if w.withoutIDs == 0 {
		return nil
	}
	text, err := json.Marshal(w.names)
	if err != nil {
		return err
	}
	return w.metadata.SetProperties(iceberg.Properties{icetable.DefaultNameMappingKey: string(text)})
}
