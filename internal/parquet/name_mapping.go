package parquet

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/convert"
)

// firstUnmappedID is the first field id given to columns that the name mapping lacks. The field ids
// of tables have 31 bits.
const firstUnmappedID = math.MaxInt32 + 1

// HasAnyFieldID reports whether any column, at any depth, has a field id.
func (f *fieldSet) HasAnyFieldID() bool {
	return slices.ContainsFunc(f.fields, func(field Field) bool { return hasAnyID(field.arrow) })
}

func hasAnyID(f arrow.Field) bool {
	return convert.FieldID(f) != NoFieldID || slices.ContainsFunc(childFields(f.Type), hasAnyID)
}

// childFields returns the fields of a struct, the element of a list, or the key and value
// of a map.
func childFields(t arrow.DataType) []arrow.Field {
	if pair, ok := convert.MapEntry(t); ok {
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

// ApplyNameMapping assigns field ids to the columns of a file that has none, and returns the
// resulting footer. find returns the id of the column at a path of names, in which list elements,
// map keys and map values are called "element", "key" and "value", whatever the file calls them;
// inside is the number of fields that the mapping has inside that column. A column that find does
// not know counts as no column of the table. So does a struct if find knows fields inside it but
// the file has none of these fields, because such a file has no information about the struct.
//
// ApplyNameMapping returns Invalid for two columns with the same id, and for a nested column that
// has an id but whose children have none, unless it is a struct as described above. f is not
// changed; the result shares everything but the fields with it.
func (f *Footer) ApplyNameMapping(find func(path []string) (id, inside int, ok bool)) (*Footer, error) {
	manifest, err := f.manifest()
	if err != nil {
		return nil, err
	}
	n := idAssigner{find: find, ids: map[int]string{}, next: firstUnmappedID}
	out := *f
	out.fieldSet, err = newFieldSet(manifest, f.leafKinds, func(field arrow.Field) (arrow.Field, error) { return n.field(field, []string{field.Name}, false) })
	return &out, err
}

// manifest returns the mapping of the file's columns to Arrow fields.
func (f *Footer) manifest() (*pqarrow.SchemaManifest, error) {
	manifest, err := pqarrow.NewSchemaManifest(f.meta.Schema, nil, &pqarrow.ArrowReadProperties{})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the file's schema is not supported by this version: %w", err)
	}
	return manifest, nil
}

// idAssigner assigns ids to fields.
type idAssigner struct {
	find func(path []string) (id, inside int, ok bool)
	ids  map[int]string // paths of the fields by assigned id
	next int            // the next id for a field that find does not know
}

// field assigns ids to a field and its children. element is whether the field is the
// element of a list, or a key or value of a map.
func (n *idAssigner) field(f arrow.Field, path []string, element bool) (arrow.Field, error) {
	id, mapped, ok := n.find(path)
	text := strings.Join(path, ".")
	if !ok {
		id = n.unmapped()
	}
	if other, twice := n.ids[id]; twice {
		return f, fault.New(fault.Invalid, "the name mapping gives the file's columns %s and %s the same field id %d", other, text, id).
			WithRemedy("change the table's name mapping, or rewrite the file")
	}
	n.ids[id] = text
	within := childFields(f.Type)
	named := slices.Clone(within)
	for i, name := range childNames(f.Type) {
		var err error
		if named[i], err = n.field(within[i], append(slices.Clone(path), name), f.Type.ID() != arrow.STRUCT); err != nil {
			return f, err
		}
	}
	switch known := slices.ContainsFunc(named, func(f arrow.Field) bool { return convert.FieldID(f) < firstUnmappedID }); {
	case !ok || len(named) == 0 || known:
	case f.Type.ID() == arrow.STRUCT && mapped > 0 && !element:
		id = n.unmapped()
	default:
		return f, fault.New(fault.Invalid, "the name mapping has a field id for column %s of the file, but none for any field inside it", text).
			WithRemedy("name the file's fields in the table's name mapping, or rewrite the file through Iceberg")
	}
	f.Type = withChildFields(f.Type, named)
	f.Metadata = arrow.NewMetadata([]string{convert.FieldIDKey}, []string{strconv.Itoa(id)})
	return f, nil
}

// unmapped returns the next field id that no table uses.
func (n *idAssigner) unmapped() int {
	n.next++
	return n.next - 1
}

// childNames returns the names that mappings use for the children of a type.
func childNames(t arrow.DataType) []string {
	if _, ok := convert.MapEntry(t); ok {
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

// withChildFields returns a type with other children.
func withChildFields(t arrow.DataType, fields []arrow.Field) arrow.DataType {
	switch t := t.(type) {
	case *arrow.ListType:
		if _, ok := convert.MapEntry(t); ok {
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
