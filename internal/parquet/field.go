package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/parquet/convert"
)

// NoFieldID is the ID of a column without a field id.
const NoFieldID = convert.NoFieldID

// Field is a top-level column of a file, or a primitive column inside structs.
type Field struct {
	ID       int            // Iceberg field id, or NoFieldID
	Name     string         // inside structs: the dotted path
	Type     arrow.DataType // the type in the file, in which nested fields have their ids as metadata
	Nullable bool           // whether the column, or a struct around it, is nullable
	Leaves   []int          // indices of its primitive columns in the file

	arrow arrow.Field
	root  int // index of its top-level column
	depth int // number of structs around it
}

// fieldSet has the columns of a file.
type fieldSet struct {
	fields  []Field
	nested  []Field // primitive columns inside structs
	structs []Field // at the top level or inside structs
}

// Fields returns the file's top-level columns in order. The caller must not change the
// slice.
func (f *fieldSet) Fields() []Field { return f.fields }

// HasFieldIDs reports whether every top-level column has a field id.
func (f *fieldSet) HasFieldIDs() bool {
	return len(f.fields) > 0 && !slices.ContainsFunc(f.fields, func(field Field) bool { return field.ID == NoFieldID })
}

// HasNestedFieldIDs reports whether every primitive column inside structs, but not in lists or
// maps, has a field id. A column without an id may be one that Field is asked for and cannot find.
func (f *fieldSet) HasNestedFieldIDs() bool {
	return !slices.ContainsFunc(f.nested, func(field Field) bool { return field.ID == NoFieldID })
}

// Field returns the column with a field id: a top-level column, or a primitive column
// inside structs.
func (f *fieldSet) Field(id int) (Field, bool) {
	if id == NoFieldID {
		return Field{}, false
	}
	for _, fields := range [][]Field{f.fields, f.nested} {
		for _, field := range fields {
			if field.ID == id {
				return field, true
			}
		}
	}
	return Field{}, false
}

// ambiguous reports whether two columns that Field searches have the same id.
func (f *fieldSet) ambiguous(id int) bool {
	columns := 0
	for _, fields := range [][]Field{f.fields, f.nested} {
		for _, field := range fields {
			if field.ID == id {
				columns++
			}
		}
	}
	return columns > 1
}

// HasStruct reports whether the file has a struct with a field id, at the top level or
// inside other structs.
func (f *fieldSet) HasStruct(id int) bool {
	_, ok := f.structField(id)
	return ok
}

// structField returns the struct with a field id.
func (f *fieldSet) structField(id int) (Field, bool) {
	at := slices.IndexFunc(f.structs, func(s Field) bool { return s.ID == id && id != NoFieldID })
	if at < 0 {
		return Field{}, false
	}
	return f.structs[at], true
}

// newFieldSet returns the columns of a file. kinds are the kinds of its leaves; rename may change
// each field.
func newFieldSet(manifest *pqarrow.SchemaManifest, kinds []leafKind, rename func(arrow.Field) (arrow.Field, error)) (fieldSet, error) {
	f := fieldSet{fields: make([]Field, len(manifest.Fields))}
	for i := range manifest.Fields {
		field, err := rename(arrowField(&manifest.Fields[i], kinds))
		if err != nil {
			return f, err
		}
		f.fields[i] = Field{
			ID: convert.FieldID(field), Name: field.Name, Type: field.Type, Nullable: field.Nullable,
			Leaves: leafIndices(&manifest.Fields[i], nil), arrow: field, root: i,
		}
		f.addNested(f.fields[i], &manifest.Fields[i])
	}
	return f, nil
}

// addNested adds a field, if it is a struct, to structs, and the primitive columns inside
// it to nested. It follows structs only, not lists and maps.
func (f *fieldSet) addNested(parent Field, node *pqarrow.SchemaField) {
	s, ok := parent.Type.(*arrow.StructType)
	if !ok {
		return
	}
	f.structs = append(f.structs, parent)
	for i := range node.Children {
		child := &node.Children[i]
		own := s.Field(i)
		field := Field{
			ID: convert.FieldID(own), Name: parent.Name + "." + own.Name, Type: own.Type, Nullable: parent.Nullable || own.Nullable,
			Leaves: leafIndices(child, nil), arrow: own, root: parent.root, depth: parent.depth + 1,
		}
		if arrow.IsNested(own.Type.ID()) {
			f.addNested(field, child)
		} else {
			f.nested = append(f.nested, field)
		}
	}
}

func leafIndices(field *pqarrow.SchemaField, into []int) []int {
	if field.IsLeaf() {
		return append(into, field.ColIndex)
	}
	for i := range field.Children {
		into = leafIndices(&field.Children[i], into)
	}
	return into
}

// arrowField returns the Arrow field of a column, with convert.Int96 and convert.AllNull where they
// apply.
func arrowField(node *pqarrow.SchemaField, kinds []leafKind) arrow.Field {
	field := *node.Field
	if node.IsLeaf() {
		switch kinds[node.ColIndex] {
		case int96Leaf:
			field.Type = &convert.Int96{FixedSizeBinaryType: arrow.FixedSizeBinaryType{ByteWidth: convert.Int96Bytes}}
		case nullLeaf:
			field.Type = &convert.AllNull{}
		case unknownLeaf:
			field.Type = convert.OfUnknown(field.Type)
		case ordinaryLeaf, narrowLeaf:
		}
		return field
	}
	switch kind := field.Type.(type) {
	case *arrow.ListType:
		field.Type = arrow.ListOfField(arrowField(&node.Children[0], kinds))
	case *arrow.MapType:
		pair := node.Children[0].Children
		of := arrow.MapOfFields(arrowField(&pair[0], kinds), arrowField(&pair[1], kinds))
		of.KeysSorted = kind.KeysSorted
		field.Type = of
	case *arrow.StructType:
		fields := make([]arrow.Field, len(node.Children))
		for i := range fields {
			fields[i] = arrowField(&node.Children[i], kinds)
		}
		field.Type = arrow.StructOf(fields...)
	}
	return field
}
