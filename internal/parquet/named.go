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
// value, whatever the file calls them. A column without one is none of the table's, and
// neither is a struct of which find knows fields and the file has none of them: such a
// file says nothing of the struct. Inside is how many fields find knows in the path's.
// Two columns of one id are Invalid, and so is one with an id and with no id inside of it
// that is not such a struct. The footer itself is left as it is, and shares all else with
// what is returned.
func (f *Footer) Named(find func(path []string) (id, inside int, ok bool)) (*Footer, error) {
	manifest, err := f.manifest()
	if err != nil {
		return nil, err
	}
	n := naming{find: find, ids: map[int]string{}, next: firstForeign}
	out := *f
	err = out.setFields(manifest, func(field arrow.Field) (arrow.Field, error) { return n.field(field, []string{field.Name}, false) })
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
	find func(path []string) (id, inside int, ok bool)
	ids  map[int]string // given so far, and to which path
	next int            // for a field that find does not know
}

// field gives a field an id, and what is in it. Element says whether it is what a list
// repeats, or a key or value.
func (n *naming) field(f arrow.Field, path []string, element bool) (arrow.Field, error) {
	id, mapped, ok := n.find(path)
	text := strings.Join(path, ".")
	if !ok {
		id = n.foreign()
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
		if named[i], err = n.field(within[i], append(slices.Clone(path), name), f.Type.ID() != arrow.STRUCT); err != nil {
			return f, err
		}
	}
	switch known := slices.ContainsFunc(named, func(f arrow.Field) bool { return fieldID(f) < firstForeign }); {
	case !ok || len(named) == 0 || known:
	case f.Type.ID() == arrow.STRUCT && mapped > 0 && !element:
		id = n.foreign()
	default:
		return f, fault.New(fault.Invalid, "the name mapping has a field id for column %s of the file, and for nothing that is in it", text).
			WithRemedy("name the file's fields in the table's name mapping, or rewrite the file through Iceberg")
	}
	f.Type = withInside(f.Type, named)
	f.Metadata = arrow.NewMetadata([]string{fieldIDKey}, []string{strconv.Itoa(id)})
	return f, nil
}

// foreign returns the next field id that no table has.
func (n *naming) foreign() int {
	n.next++
	return n.next - 1
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
