package parquet

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/fault"
)

// firstForeign is the first field id of the columns that a name mapping does not name.
// Tables count theirs in 31 bits.
const firstForeign = math.MaxInt32 + 1

// HasAnyFieldID says whether any column has a field id, at any depth.
func (f *Footer) HasAnyFieldID() bool {
	return slices.ContainsFunc(f.fields, func(field Field) bool { return anyID(field.arrow) })
}

func anyID(f arrow.Field) bool {
	return fieldID(f) != NoFieldID || slices.ContainsFunc(inside(f.Type), anyID)
}

// inside returns the fields of a struct, or what is in a list or a map.
func inside(t arrow.DataType) []arrow.Field {
	if pair, ok := pairOf(t); ok {
		return pair
	}
	switch t := t.(type) {
	case *arrow.ListType:
		return []arrow.Field{t.ElemField()}
	case *arrow.StructType:
		return t.Fields()
	default:
		return nil
	}
}

// Named returns the footer of a file that was written without field ids, with those
// that find gives a path of names: of columns, of fields of structs, and element, key and
// value, whatever the file calls them. A column without one is none of the table's. Two
// of one id, and one whose inside has none, are Invalid. The footer itself is left as it
// is, and shares all else with what is returned.
func (f *Footer) Named(find func(path []string) (id int, ok bool)) (*Footer, error) {
	manifest, err := f.manifest()
	if err != nil {
		return nil, err
	}
	n := naming{find: find, ids: map[int]string{}, next: firstForeign}
	out := *f
	err = out.setFields(manifest, func(field arrow.Field) (arrow.Field, error) { return n.field(field, []string{field.Name}) })
	return &out, err
}

// manifest says how the file's columns are put together.
func (f *Footer) manifest() (*pqarrow.SchemaManifest, error) {
	manifest, err := pqarrow.NewSchemaManifest(f.meta.Schema, nil, &pqarrow.ArrowReadProperties{})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the file's schema is not served by this version: %w", err)
	}
	return manifest, nil
}

// naming gives fields ids.
type naming struct {
	find func(path []string) (id int, ok bool)
	ids  map[int]string // given so far, and to which path
	next int            // for a field that find does not know
}

func (n *naming) field(f arrow.Field, path []string) (arrow.Field, error) {
	id, ok := n.find(path)
	text := strings.Join(path, ".")
	if !ok {
		id = n.next
		n.next++
	}
	if other, twice := n.ids[id]; twice {
		return f, fault.New(fault.Invalid, "the file has the columns %s and %s, and the name mapping has field id %d for both", other, text, id).
			WithRemedy("change the table's name mapping, or rewrite the file")
	}
	n.ids[id] = text
	within := inside(f.Type)
	named := slices.Clone(within)
	for i, name := range namesInside(f.Type) {
		var err error
		if named[i], err = n.field(within[i], append(slices.Clone(path), name)); err != nil {
			return f, err
		}
	}
	if ok && len(named) > 0 && !slices.ContainsFunc(named, func(f arrow.Field) bool { return fieldID(f) < firstForeign }) {
		return f, fault.New(fault.Invalid, "the name mapping has a field id for column %s of the file, and for nothing that is in it", text).
			WithRemedy("complete the table's name mapping")
	}
	f.Type = withInside(f.Type, named)
	f.Metadata = arrow.NewMetadata([]string{fieldIDKey}, []string{strconv.Itoa(id)})
	return f, nil
}

// namesInside are the names by which mappings know what is in a type.
func namesInside(t arrow.DataType) []string {
	if _, ok := pairOf(t); ok {
		return []string{"key", "value"}
	}
	switch t := t.(type) {
	case *arrow.ListType:
		return []string{"element"}
	case *arrow.StructType:
		names := make([]string, t.NumFields())
		for i := range names {
			names[i] = t.Field(i).Name
		}
		return names
	default:
		return nil
	}
}

// withInside returns a type with other fields in it.
func withInside(t arrow.DataType, fields []arrow.Field) arrow.DataType {
	switch t := t.(type) {
	case *arrow.ListType:
		if _, ok := pairOf(t); ok {
			pair := t.ElemField()
			pair.Type = arrow.StructOf(fields...)
			return arrow.ListOfField(pair)
		}
		return arrow.ListOfField(fields[0])
	case *arrow.MapType:
		out := arrow.MapOfFields(fields[0], fields[1])
		out.KeysSorted = t.KeysSorted
		return out
	case *arrow.StructType:
		return arrow.StructOf(fields...)
	default:
		return t
	}
}
