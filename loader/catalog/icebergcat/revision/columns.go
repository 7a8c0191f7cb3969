package revision

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// AddColumns returns the table's current schema with additional columns, and the schema to add to
// the table's metadata. The latter is nil if the table already has the columns. The text of the new
// schema is derived from the text of the current schema, so that it keeps everything that this
// version does not know.
func AddColumns(m *metadata.Loaded, columns []commit.NewColumn) (*iceberg.Schema, *Schema, error) {
	current := m.CurrentSchema()
	var missing []commit.NewColumn
	for _, column := range columns {
		there, err := has(m, current, column)
		if err != nil {
			return nil, nil, err
		}
		if !there {
			missing = append(missing, column)
		}
	}
	if len(missing) == 0 {
		return current, nil, nil
	}
	text, err := schemaText(m, current.ID)
	if err != nil {
		return nil, nil, metafile.Corrupt(m.Name, m.File.Location, "the schemas of table %s cannot be read: %w", m.Name, err)
	}
	out := &Schema{LastColumn: m.LastColumnID(), Current: true}
	for _, s := range m.Schemas() {
		out.ID = max(out.ID, s.ID+1)
	}
	object, err := members(text)
	if err != nil {
		return nil, nil, err
	}
	fields := find(object, "fields")
	for _, column := range missing {
		field, err := EncodeColumn(column)
		if err != nil {
			return nil, nil, err
		}
		if fields, err = appended(fields, field); err != nil {
			return nil, nil, err
		}
	}
	if out.Text, err = written(set(set(object, "fields", fields), "schema-id", number(int64(out.ID)))); err != nil {
		return nil, nil, err
	}
	schema := &iceberg.Schema{}
	if err := json.Unmarshal(out.Text, schema); err != nil {
		return nil, nil, fault.InvalidField("columns", "the columns to add to table %s are no Iceberg columns: %s", m.Name, err).In(m.Name, "")
	}
	out.LastColumn = max(out.LastColumn, schema.HighestFieldID())
	schema.ID = out.ID
	return schema, out, nil
}

// has reports whether a schema already has the column to add. It returns Conflict if another column
// has the id or the name of this column.
func has(m *metadata.Loaded, schema *iceberg.Schema, column commit.NewColumn) (bool, error) {
	i := slices.IndexFunc(schema.Fields(), func(f iceberg.NestedField) bool { return f.ID == column.ID || f.Name == column.Name })
	if i < 0 && column.ID > m.LastColumnID() {
		return false, nil
	}
	if i >= 0 {
		f := schema.Field(i)
		if f.ID == column.ID && f.Name == column.Name && sameType(f, column.Type) {
			return true, nil
		}
	}
	return false, fault.New(fault.Conflict, "column %q cannot be added to table %s under field id %d: another column has the name or had the id", column.Name, m.Name, column.ID).
		In(m.Name, "").WithRemedy("write the files again, with field ids above %d", m.LastColumnID())
}

// sameType reports whether a column has the given type. The parameter of is the JSON form of the
// type.
func sameType(f iceberg.NestedField, of string) bool {
	text, err := json.Marshal(f)
	if err != nil {
		return false
	}
	object, err := members(text)
	if err != nil {
		return false
	}
	var x, y any
	return json.Unmarshal(find(object, "type"), &x) == nil && json.Unmarshal(typeText(of), &y) == nil && reflect.DeepEqual(x, y)
}

// typeText returns a type as JSON: the name of a primitive type as a string, or the object of a
// nested type.
func typeText(of string) json.RawMessage {
	if json.Valid([]byte(of)) {
		return json.RawMessage(of)
	}
	quoted, _ := json.Marshal(of)
	return quoted
}

// EncodeColumn encodes a column as an element of a schema's list of fields.
func EncodeColumn(column commit.NewColumn) (json.RawMessage, error) {
	return json.Marshal(struct {
		ID       int             `json:"id"`
		Name     string          `json:"name"`
		Required bool            `json:"required"`
		Type     json.RawMessage `json:"type"`
		Doc      string          `json:"doc,omitempty"`
	}{column.ID, column.Name, column.Required, typeText(column.Type), column.Doc})
}

// schemaText returns the text of a schema in the table's metadata.
func schemaText(m *metadata.Loaded, id int) (json.RawMessage, error) {
	object, err := members(m.Text)
	if err != nil {
		return nil, err
	}
	var schemas []json.RawMessage
	if list := find(object, "schemas"); list != nil {
		if err := json.Unmarshal(list, &schemas); err != nil {
			return nil, err
		}
	}
	for _, text := range schemas {
		var s struct {
			ID int `json:"schema-id"`
		}
		if json.Unmarshal(text, &s) == nil && s.ID == id {
			return text, nil
		}
	}
	return nil, errors.New("its current schema is not in the list of schemas")
}
