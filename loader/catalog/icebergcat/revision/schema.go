package revision

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/column"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// topField is a top-level column of a schema as text.
type topField struct {
	id     int
	object []member
}

// EditSchema applies an edit to one of the table's schemas. It returns the new schema, parsed and
// as text, after checking that the table can have it.
func EditSchema(m *metadata.Loaded, edit commit.SchemaEdit) (*iceberg.Schema, *Schema, error) {
	if _, ok := m.SchemaByID(edit.Base); !ok {
		return nil, nil, fault.New(fault.Conflict, "table %s has no schema %d, which the new one is derived from", m.Name, edit.Base).In(m.Name, "").
			WithRemedy("look at the table's current schemas, and decide again")
	}
	text, err := schemaText(m, edit.Base)
	if err != nil {
		return nil, nil, metafile.Corrupt(m.Name, m.File.Location, "the schemas of table %s cannot be read: %w", m.Name, err)
	}
	object, fields, err := splitSchema(text)
	if err != nil {
		return nil, nil, metafile.Corrupt(m.Name, m.File.Location, "schema %d of table %s cannot be read: %w", edit.Base, m.Name, err)
	}
	if fields, err = editFields(m, fields, edit); err != nil {
		return nil, nil, err
	}
	list, err := joinFields(fields)
	if err != nil {
		return nil, nil, err
	}
	out := &Schema{LastColumn: m.LastColumnID()}
	for _, s := range m.Schemas() {
		out.ID = max(out.ID, s.ID+1)
	}
	if out.Text, err = written(set(set(object, "fields", list), "schema-id", number(int64(out.ID)))); err != nil {
		return nil, nil, err
	}
	schema := &iceberg.Schema{}
	if err := json.Unmarshal(out.Text, schema); err != nil {
		return nil, nil, fault.InvalidField("add", "the columns to add to table %s are no Iceberg columns: %s", m.Name, err).In(m.Name, "")
	}
	out.LastColumn = max(out.LastColumn, schema.HighestFieldID())
	return schema, out, mayHave(m, schema, edit)
}

// splitSchema splits the text of a schema into its members and its columns.
func splitSchema(text []byte) (object []member, fields []topField, err error) {
	if object, err = members(text); err != nil {
		return nil, nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(find(object, "fields"), &list); err != nil {
		return nil, nil, err
	}
	for _, one := range list {
		f := topField{}
		if f.object, err = members(one); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(find(f.object, "id"), &f.id); err != nil {
			return nil, nil, err
		}
		fields = append(fields, f)
	}
	return object, fields, nil
}

// joinFields returns the text of a list of columns.
func joinFields(fields []topField) (json.RawMessage, error) {
	list := json.RawMessage("[]")
	for _, f := range fields {
		text, err := written(f.object)
		if err == nil {
			list, err = appended(list, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// editFields edits the columns of a schema.
func editFields(m *metadata.Loaded, fields []topField, edit commit.SchemaEdit) ([]topField, error) {
	for id := range edit.Rename {
		if err := isTop(m, fields, edit.Base, id); err != nil {
			return nil, err
		}
	}
	for _, id := range edit.Drop {
		if err := isTop(m, fields, edit.Base, id); err != nil {
			return nil, err
		}
	}
	fields = slices.DeleteFunc(fields, func(f topField) bool { return slices.Contains(edit.Drop, f.id) })
	for i, f := range fields {
		if name, ok := edit.Rename[f.id]; ok {
			text, err := json.Marshal(name)
			if err != nil {
				return nil, err
			}
			fields[i].object = set(f.object, "name", text)
		}
	}
	for _, c := range edit.Add {
		if slices.ContainsFunc(fields, func(f topField) bool { return f.id == c.ID }) {
			return nil, fault.New(fault.Conflict, "column %q cannot be added to schema %d of table %s: it has another column with field id %d", c.Name, edit.Base, m.Name, c.ID).
				In(m.Name, "").WithRemedy("use a field id above %d", m.LastColumnID())
		}
		f, err := addedField(m, c)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// isTop returns Invalid if no top-level column of a schema has the field id.
func isTop(m *metadata.Loaded, fields []topField, schema, id int) error {
	if slices.ContainsFunc(fields, func(f topField) bool { return f.id == id }) {
		return nil
	}
	return fault.InvalidField("edit", "schema %d of table %s has no top-level column with field id %d", schema, m.Name, id).In(m.Name, "").
		WithRemedy("name columns of that schema that are not inside others")
}

// addedField returns a column to add. If another schema of the table has this column, the result
// has all attributes from there.
func addedField(m *metadata.Loaded, c commit.NewColumn) (topField, error) {
	if c.ID > m.LastColumnID() {
		text, err := EncodeColumn(c)
		if err != nil {
			return topField{}, err
		}
		object, err := members(text)
		return topField{id: c.ID, object: object}, err
	}
	schemas := slices.Clone(m.Schemas())
	slices.SortFunc(schemas, func(a, b *iceberg.Schema) int { return b.ID - a.ID })
	for _, s := range schemas {
		i := slices.IndexFunc(s.Fields(), func(f iceberg.NestedField) bool { return f.ID == c.ID })
		if i < 0 || s.Field(i).Name != c.Name || s.Field(i).Doc != c.Doc || !sameType(s.Field(i), c.Type) {
			continue // a different column: two writers may have chosen the same id at the same time
		}
		text, err := schemaText(m, s.ID)
		if err != nil {
			return topField{}, err
		}
		_, fields, err := splitSchema(text)
		if err != nil {
			return topField{}, err
		}
		f := fields[i]
		f.object = set(f.object, "required", json.RawMessage("false"))
		return f, nil
	}
	return topField{}, fault.New(fault.Conflict, "column %q cannot be added to table %s under field id %d: the id was used before, for a column that no schema of the table has with this name, type %s and documentation",
		c.Name, m.Name, c.ID, c.Type).In(m.Name, "").WithRemedy("write the files again, with field ids above %d", m.LastColumnID())
}

// mayHave returns an error if the table cannot have the schema that results from an edit.
func mayHave(m *metadata.Loaded, schema *iceberg.Schema, edit commit.SchemaEdit) error {
	seen := map[string]bool{}
	for _, f := range column.All(schema) {
		if seen[f.Name] {
			return fault.New(fault.Conflict, "the new schema of table %s has two columns called %q", m.Name, f.Name).In(m.Name, "").
				WithRemedy("choose another name, or rename the other column too")
		}
		seen[f.Name] = true
	}
	named := map[string]int{} // the columns with new names
	for id, name := range edit.Rename {
		named[name] = id
	}
	for _, c := range edit.Add {
		named[c.Name] = c.ID
	}
	for _, spec := range m.PartitionSpecs() {
		for i := range spec.NumFields() {
			f := spec.Field(i)
			_, identity := f.Transform.(iceberg.IdentityTransform)
			if id, ok := named[f.Name]; ok && (!identity || !slices.Contains(f.SourceIDs, id)) {
				return fault.New(fault.Conflict, "a column of table %s cannot be called %q: a partition field has this name, and other engines would not load the table", m.Name, f.Name).
					In(m.Name, "").WithRemedy("choose another name")
			}
		}
	}
	return MayUse(m, schema)
}

// MayUse returns Invalid for a schema that lacks a column which the table's current partition spec
// or sort order, or the schema's row identifier, needs.
func MayUse(m *metadata.Loaded, schema *iceberg.Schema) error {
	lacks := func(what string, ids []int) error {
		for _, id := range ids {
			if _, ok := schema.FindFieldByID(id); !ok {
				return fault.InvalidField("schema", "the column with field id %d is needed by %s of table %s", id, what, m.Name).In(m.Name, "").
					WithRemedy("change %s of the table first", what)
			}
		}
		return nil
	}
	spec := m.PartitionSpec()
	for i := range spec.NumFields() {
		if _, void := spec.Field(i).Transform.(iceberg.VoidTransform); void {
			continue
		}
		if err := lacks("the partition spec", spec.Field(i).SourceIDs); err != nil {
			return err
		}
	}
	for _, f := range m.SortOrder().Fields() {
		if err := lacks("the sort order", f.SourceIDs); err != nil {
			return err
		}
	}
	return lacks("the identifier of rows", schema.IdentifierFieldIDs)
}

// EqualSchema returns the id of a schema of the table that is equal to the given schema, except for
// the id. If a REST catalog returned the metadata, only the parts that this version knows are
// compared, because the catalog need not keep the rest. Otherwise the JSON texts must have equal
// values, including the parts that this version does not know.
func EqualSchema(m *metadata.Loaded, schema *iceberg.Schema, text []byte) (id int, found bool, err error) {
	for _, s := range m.Schemas() {
		if !sameColumns(s, schema) {
			continue
		}
		if m.Returned {
			return s.ID, true, nil
		}
		other, err := schemaText(m, s.ID)
		if err != nil {
			return 0, false, err
		}
		if same, err := sameText(text, other); same || err != nil {
			return s.ID, same, err
		}
	}
	return 0, false, nil
}

// sameColumns reports whether two schemas have the same columns in the same order, and the same row
// identifier.
func sameColumns(a, b *iceberg.Schema) bool {
	x, y := slices.Sorted(slices.Values(a.IdentifierFieldIDs)), slices.Sorted(slices.Values(b.IdentifierFieldIDs))
	return slices.Equal(x, y) && slices.EqualFunc(a.Fields(), b.Fields(), func(f, g iceberg.NestedField) bool { return f.Equals(g) })
}

// sameText reports whether two texts of schemas are equal, except for the ids of the schemas.
func sameText(a, b []byte) (bool, error) {
	var values [2]map[string]any
	for i, text := range [][]byte{a, b} {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&values[i]); err != nil {
			return false, err
		}
		delete(values[i], "schema-id")
		if ids, _ := values[i]["identifier-field-ids"].([]any); len(ids) == 0 {
			delete(values[i], "identifier-field-ids")
		}
	}
	return reflect.DeepEqual(values[0], values[1]), nil
}
