package scan

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/catalog"
)

// byDefault gives a column that the file lacks the value that its initial default says,
// and says whether it has one that is not null. Of a column inside structs the default
// counts of the outermost of them that the file lacks: a struct without one is null,
// whatever its fields say.
func (o *opened) byDefault(t *catalog.Table, c catalog.Field) bool {
	path := pathTo(t, c.ID)
	lacks := slices.IndexFunc(path, func(p place) bool { return !o.HasStruct(p.id) })
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

// place is a field, and its type with the field ids of what is in it.
type place struct {
	id int
	in arrow.DataType
	at int // among the fields of the struct around it
}

// pathTo returns the structs around a column, from the outside, and the column; nil if
// the table does not say where it is.
func pathTo(t *catalog.Table, id int) []place {
	for _, f := range t.Fields {
		own := place{id: f.ID, in: f.Stored}
		if f.ID == id {
			return []place{own}
		}
		if path := own.pathTo(id); path != nil {
			return append([]place{own}, path...)
		}
	}
	return nil
}

func (p place) pathTo(id int) []place {
	s, ok := p.in.(*arrow.StructType)
	if !ok {
		return nil
	}
	for i, f := range s.Fields() {
		own := place{id: idOf(f), in: f.Type, at: i}
		if own.id == id {
			return []place{own}
		}
		if path := own.pathTo(id); path != nil {
			return append([]place{own}, path...)
		}
	}
	return nil
}

// idOf returns the field id of a nested field, or one that no column has.
func idOf(f arrow.Field) int {
	text, _ := f.Metadata.GetValue(catalog.FieldIDKey)
	id, err := strconv.Atoi(text)
	if err != nil {
		return parquet.NoFieldID
	}
	return id
}

// valueAt returns the default of the first field of a path, as far as it says what the
// last one is; nil for null.
func valueAt(t *catalog.Table, path []place) arrow.Array {
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

// defaultsOf returns what fields of structs are that a file lacks, where whole columns
// of structs, lists and maps are read.
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
