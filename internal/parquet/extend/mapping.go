package extend

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/fault"
)

// firstUnknownID is the first id of fields that no table has. Ids in files have 31 bits, and the last 200
// are reserved by the specification.
const firstUnknownID = 2_000_000_000

// pathSeparator separates the names of a path. It is not a dot, because names may have dots.
const pathSeparator = "\x00"

// pathOf joins the names of a field and of those around it.
func pathOf(names ...string) string { return strings.Join(names, pathSeparator) }

// dotted returns a path in the form that messages show.
func dotted(path string) string { return strings.ReplaceAll(path, pathSeparator, ".") }

// nameMapper finds the ids of a file's fields by their names.
type nameMapper struct {
	find func(path []string) (id, inside int, ok bool)
	ids  map[string]int // by the path in the file
	next int
}

// mapNames gives ids to all fields of a file without any.
func (b *base) mapNames(find func(path []string) (id, inside int, ok bool)) error {
	root, err := schema.FromParquet(b.meta.FileMetaData.Schema)
	if err != nil {
		return fault.New(fault.Corrupt, "the schema of %s cannot be read: %w", b.from.Location(), err)
	}
	m := nameMapper{find: find, ids: map[string]int{}, next: firstUnknownID}
	for _, f := range children(root) {
		m.field(f, f.Name(), []string{f.Name()}, false)
	}
	seen := map[int]string{}
	for _, path := range slices.Sorted(maps.Keys(m.ids)) {
		id := m.ids[path]
		if other, twice := seen[id]; twice {
			return fault.New(fault.Invalid, "the name mapping gives the columns %s and %s of %s the same field id %d", dotted(other), dotted(path), b.from.Location(), id).
				WithRemedy("change the table's name mapping, or rewrite the file")
		}
		seen[id] = path
	}
	next := 1 // the first element of the footer's schema is its root
	for range b.meta.FileMetaData.Schema[0].GetNumChildren() {
		next = b.setIDs(m.ids, next, "")
	}
	return nil
}

// setIDs sets the ids of the field that is an element of the footer's schema, and of those inside
// it. It returns the next element.
func (b *base) setIDs(ids map[string]int, element int, parent string) (next int) {
	e := b.meta.FileMetaData.Schema[element]
	path := parent + e.Name
	if id, ok := ids[path]; ok {
		e.FieldID = new(int32(id))
	}
	next = element + 1
	for range e.GetNumChildren() {
		next = b.setIDs(ids, next, path+pathSeparator)
	}
	return next
}

// field sets the ids of a field and of the fields inside it, and reports whether the mapping knows
// any of them. at is the field's path in the file, and path its path in the mapping; element is
// whether the field is inside a list or map.
func (m *nameMapper) field(f schema.Node, at string, path []string, element bool) bool {
	id, mapped, known := m.find(path)
	inside := false
	fields := fieldsInside(f)
	for _, c := range fields {
		below := append(slices.Clone(path), c.name)
		if m.field(c.node, at+c.at, below, c.element) {
			inside = true
		}
	}
	if !known || len(fields) > 0 && !inside && mapped > 0 && !element && !fields[0].element {
		id, known = m.next, false
		m.next++
	}
	m.ids[at] = id
	return known || inside
}

// insideField is a field inside another one.
type insideField struct {
	node    schema.Node
	name    string // in a mapping
	at      string // its path in the file, from the field around it
	element bool   // of a list or map
}

// children returns the fields of a group.
func children(n schema.Node) []schema.Node {
	group, ok := n.(*schema.GroupNode)
	if !ok {
		return nil
	}
	out := make([]schema.Node, group.NumFields())
	for i := range out {
		out[i] = group.Field(i)
	}
	return out
}

// fieldsInside returns the fields of a struct, the element of a list, or the key and value of a map.
func fieldsInside(n schema.Node) []insideField {
	fields := children(n)
	var out []insideField
	repeated := len(fields) == 1 && fields[0].RepetitionType() == parquet.Repetitions.Repeated
	switch kind := n.ConvertedType(); {
	case repeated && (kind == schema.ConvertedTypes.Map || kind == schema.ConvertedTypes.MapKeyValue):
		for i, c := range children(fields[0]) {
			out = append(out, insideField{c, [...]string{"key", "value"}[min(i, 1)], pathOf("", fields[0].Name(), c.Name()), true})
		}
	case repeated && kind == schema.ConvertedTypes.List:
		entry, inner := fields[0], children(fields[0])
		if len(inner) != 1 || entry.Name() == "array" || entry.Name() == n.Name()+"_tuple" {
			return []insideField{{entry, "element", pathOf("", entry.Name()), true}} // lists of two levels, of older writers
		}
		out = append(out, insideField{inner[0], "element", pathOf("", entry.Name(), inner[0].Name()), true})
	default:
		for _, c := range fields {
			out = append(out, insideField{c, c.Name(), pathOf("", c.Name()), false})
		}
	}
	return out
}

// otherNames returns the schema of new columns under names that the file does not have.
func (b *base) otherNames(sc *arrow.Schema) *arrow.Schema {
	if sc == nil {
		return nil
	}
	fields := slices.Clone(sc.Fields())
	for i, f := range fields {
		id, ok := f.Metadata.GetValue("PARQUET:field_id")
		for ok && b.hasName(fields[i].Name) {
			fields[i].Name += "_" + id
		}
	}
	return arrow.NewSchema(fields, new(sc.Metadata()))
}

// hasName reports whether the file has a top-level column with the given name.
func (b *base) hasName(name string) bool {
	return slices.ContainsFunc(b.fields, func(old schema.Node) bool { return old.Name() == name })
}

// freeIDs gives each old field that has the id of a new field an id that no table uses.
func (b *base) freeIDs(sc *arrow.Schema) {
	if sc == nil {
		return
	}
	added, used := map[int32]bool{}, map[int32]bool{}
	for _, f := range sc.Fields() {
		collectIDs(f, added)
	}
	elements := b.meta.FileMetaData.Schema[1:]
	for _, e := range elements {
		if e.FieldID != nil {
			used[*e.FieldID] = true
		}
	}
	next := int32(firstUnknownID)
	for _, e := range elements {
		if e.FieldID == nil || !added[*e.FieldID] {
			continue
		}
		for used[next] {
			next++
		}
		e.FieldID, used[next] = new(next), true
	}
}

// collectIDs adds the ids of a field and of those inside it to a set.
func collectIDs(f arrow.Field, to map[int32]bool) {
	if text, ok := f.Metadata.GetValue("PARQUET:field_id"); ok {
		if id, err := strconv.ParseInt(text, 10, 32); err == nil {
			to[int32(id)] = true
		}
	}
	if nested, ok := f.Type.(arrow.NestedType); ok {
		for _, c := range nested.Fields() {
			collectIDs(c, to)
		}
	}
}
