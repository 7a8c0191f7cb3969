package parquet

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// NoFieldID stands for a column that the file gives no field id.
const NoFieldID = -1

const fieldIDKey = "PARQUET:field_id"

// initialDefaultKey is the metadata key of a wanted field inside a struct that has an
// initial default: a file that lacks it does not mean null by that.
const initialDefaultKey = "penstock:initial_default"

// Field is a top-level column of a file, or a primitive one inside structs.
type Field struct {
	ID       int            // Iceberg field id, or NoFieldID
	Name     string         // of one inside structs, the path to it with dots
	Type     arrow.DataType // as the file has it; nested fields carry their ids as metadata
	Nullable bool           // or that of a struct around it
	Leaves   []int          // positions of its primitive columns among the file's

	arrow arrow.Field
	root  int // its top-level column
	depth int // structs around it
}

// Fields are the file's top-level columns in order. The caller does not change
// the slice.
func (f *Footer) Fields() []Field { return f.fields }

// HasFieldIDs says whether every top-level column has a field id. Where one
// has none, the table needs a name mapping to be read rightly.
func (f *Footer) HasFieldIDs() bool {
	for _, field := range f.fields {
		if field.ID == NoFieldID {
			return false
		}
	}
	return len(f.fields) > 0
}

// HasNestedFieldIDs says whether every primitive column inside structs, and
// outside of lists and maps, has a field id too. Where one has none, a column
// that Field does not find may be there nevertheless.
func (f *Footer) HasNestedFieldIDs() bool {
	return !slices.ContainsFunc(f.inside, func(field Field) bool { return field.ID == NoFieldID })
}

// Field finds the column with a field id: a top-level one, or a primitive one
// inside structs.
func (f *Footer) Field(id int) (Field, bool) {
	if id == NoFieldID {
		return Field{}, false
	}
	for _, fields := range [][]Field{f.fields, f.inside} {
		for _, field := range fields {
			if field.ID == id {
				return field, true
			}
		}
	}
	return Field{}, false
}

func (f *Footer) newFields(manifest *pqarrow.SchemaManifest) []Field {
	fields := make([]Field, len(manifest.Fields))
	for i := range manifest.Fields {
		field := f.fieldOf(&manifest.Fields[i])
		fields[i] = Field{
			ID: fieldID(field), Name: field.Name, Type: field.Type, Nullable: field.Nullable,
			Leaves: leaves(&manifest.Fields[i], nil), arrow: field, root: i,
		}
	}
	return fields
}

// insideOf returns the primitive columns inside the structs of a field,
// through structs alone.
func (f *Footer) insideOf(parent Field, node *pqarrow.SchemaField) []Field {
	if node.Field.Type.ID() != arrow.STRUCT {
		return nil
	}
	var out []Field
	for i := range node.Children {
		child := &node.Children[i]
		own := f.fieldOf(child)
		field := Field{
			ID: fieldID(own), Name: parent.Name + "." + own.Name, Type: own.Type, Nullable: parent.Nullable || own.Nullable,
			Leaves: leaves(child, nil), arrow: own, root: parent.root, depth: parent.depth + 1,
		}
		if arrow.IsNested(own.Type.ID()) {
			out = append(out, f.insideOf(field, child)...)
		} else {
			out = append(out, field)
		}
	}
	return out
}

func leaves(field *pqarrow.SchemaField, into []int) []int {
	if field.IsLeaf() {
		return append(into, field.ColIndex)
	}
	for i := range field.Children {
		into = leaves(&field.Children[i], into)
	}
	return into
}

// fieldID returns the id that a field's metadata gives, or NoFieldID.
func fieldID(field arrow.Field) int {
	text, ok := field.Metadata.GetValue(fieldIDKey)
	if !ok {
		return NoFieldID
	}
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		return NoFieldID
	}
	return id
}
