package scan

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/catalog"
)

// byDefault supplies the initial default of a column that the file lacks, and reports whether the
// column has one that is not null. For a column inside structs, the default of the outermost struct
// that the file lacks applies. If this struct has no default, it is null, whatever the defaults of
// its fields are.
func (o *opened) byDefault(t *catalog.Table, c catalog.Field) bool {
	path := pathTo(t, c.ID)
	lacks := slices.IndexFunc(path, func(p nestedField) bool { return !o.HasStruct(p.id) })
	if lacks < 0 {
		return false
	}
	value := valueAt(t, path[lacks:])
	if value == nil {
		return false
	}
	o.constants[c.ID] = repeated(value)
	if lacks > 0 {
		o.around[c.ID] = path[lacks-1].id
	}
	return true
}

// nestedField is a field of the table, perhaps inside structs. Its type includes the ids of nested
// fields.
type nestedField struct {
	id int
	in arrow.DataType
	at int // index in the enclosing struct
}

// pathTo returns the structs that contain a column, the outermost first, followed by the column
// itself. It returns nil if the table does not have the column.
func pathTo(t *catalog.Table, id int) []nestedField {
	for _, f := range t.TopLevel() {
		own := nestedField{id: f.ID, in: f.Stored}
		if f.ID == id {
			return []nestedField{own}
		}
		if path := own.pathTo(id); path != nil {
			return append([]nestedField{own}, path...)
		}
	}
	return nil
}

func (p nestedField) pathTo(id int) []nestedField {
	s, ok := p.in.(*arrow.StructType)
	if !ok {
		return nil
	}
	for i, f := range s.Fields() {
		own := nestedField{id: idOf(f), in: f.Type, at: i}
		if own.id == id {
			return []nestedField{own}
		}
		if path := own.pathTo(id); path != nil {
			return append([]nestedField{own}, path...)
		}
	}
	return nil
}

// idOf returns the id of a nested field, or parquet.NoFieldID.
func idOf(f arrow.Field) int {
	text, _ := f.Metadata.GetValue(catalog.FieldIDKey)
	id, err := strconv.Atoi(text)
	if err != nil {
		return parquet.NoFieldID
	}
	return id
}

// valueAt takes the default of the first field of a path, and returns the value that it contains
// for the last field. Nil means null.
func valueAt(t *catalog.Table, path []nestedField) arrow.Array {
	value, ok := t.Defaults[path[0].id]
	if !ok {
		return nil
	}
	for _, p := range path[1:] {
		if value.IsNull(0) {
			return nil
		}
		value = value.(*array.Struct).Field(p.at) //nolint:forcetypeassert // the path goes through structs
	}
	if value.IsNull(0) {
		return nil
	}
	return value
}

// defaultsOf returns the initial defaults by field id if columns with nested fields (structs, lists
// or maps) are read whole, because a file may lack fields inside them.
func defaultsOf(t *catalog.Table, read []catalog.Field) map[int]parquet.Constant {
	if len(t.Defaults) == 0 || !slices.ContainsFunc(read, func(f catalog.Field) bool { return f.Stored != nil }) {
		return nil
	}
	out := make(map[int]parquet.Constant, len(t.Defaults))
	for id, value := range t.Defaults {
		out[id] = repeated(value)
	}
	return out
}
