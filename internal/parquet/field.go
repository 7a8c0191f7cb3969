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

// HasFieldIDs says whether every top-level column has a field id.
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

// ambiguous says whether two columns that Field looks at have a field id.
func (f *Footer) ambiguous(id int) bool {
	columns := 0
	for _, fields := range [][]Field{f.fields, f.inside} {
		for _, field := range fields {
			if field.ID == id {
				columns++
			}
		}
	}
	return columns > 1
}

// HasStruct says whether the file has a struct with a field id: a top-level column, or
// one inside structs alone.
func (f *Footer) HasStruct(id int) bool {
	_, ok := f.structure(id)
	return ok
}

// structure finds a struct.
func (f *Footer) structure(id int) (Field, bool) {
	at := slices.IndexFunc(f.structs, func(s Field) bool { return s.ID == id && id != NoFieldID })
	if at < 0 {
		return Field{}, false
	}
	return f.structs[at], true
}

// setFields makes the fields of all columns, as rename has them.
func (f *Footer) setFields(manifest *pqarrow.SchemaManifest, rename func(arrow.Field) (arrow.Field, error)) error {
	f.fields, f.inside, f.structs = make([]Field, len(manifest.Fields)), nil, nil
	for i := range manifest.Fields {
		field, err := rename(f.fieldOf(&manifest.Fields[i]))
		if err != nil {
			return err
		}
		f.fields[i] = Field{
			ID: fieldID(field), Name: field.Name, Type: field.Type, Nullable: field.Nullable,
			Leaves: leaves(&manifest.Fields[i], nil), arrow: field, root: i,
		}
		f.addInside(f.fields[i], &manifest.Fields[i])
	}
	return nil
}

// addInside adds the primitive columns inside the structs of a field, through structs
// alone, and these structs.
func (f *Footer) addInside(parent Field, node *pqarrow.SchemaField) {
	s, ok := parent.Type.(*arrow.StructType)
	if !ok {
		return
	}
	f.structs = append(f.structs, parent)
	for i := range node.Children {
		child := &node.Children[i]
		own := s.Field(i)
		field := Field{
			ID: fieldID(own), Name: parent.Name + "." + own.Name, Type: own.Type, Nullable: parent.Nullable || own.Nullable,
			Leaves: leaves(child, nil), arrow: own, root: parent.root, depth: parent.depth + 1,
		}
		if arrow.IsNested(own.Type.ID()) {
			f.addInside(field, child)
		} else {
			f.inside = append(f.inside, field)
		}
	}
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
