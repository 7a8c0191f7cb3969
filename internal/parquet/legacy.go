package parquet

import (
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/convert"
)

const (
	// Physical types, as numbered in footers.
	physicalInt96 = 3
	physicalFixed = 7
)

// rewriteLegacyTypes changes a decoded footer's schema to what current writers would write, because
// the library reads only that correctly. It also removes annotations that change no value. The
// pages stay as they are.
//
// Two-level lists become three-level lists by the backward-compatibility rules of the format
// ("Lists" in its logical types): the repeated field is wrapped in a required group, which adds no
// level. INT96 becomes a fixed-length byte array, which pages store in the same way: the library
// would convert INT96 to nanoseconds, whose range is too small. 8- and 16-bit integers, signed or
// unsigned, become the INT32 that stores them. A column annotated to be all null keeps its physical
// type, so that a value in the column is detected.
func (f *Footer) rewriteLegacyTypes() error {
	m := legacyLists{}
	root := f.meta.Schema.Root()
	fields, err := m.fields(root)
	if err != nil {
		return err
	}
	if root, err = schema.NewGroupNode(root.Name(), root.RepetitionType(), fields, root.FieldID()); err != nil {
		return err
	}
	f.meta.Schema, f.leafKinds = schema.NewSchema(root), m.leaves
	for leaf := range f.unknown.logical {
		if f.leafKinds[leaf] == int96Leaf { // what an INT96 means depends on the annotation, which is unknown
			f.unknown.physical[leaf] = true
			continue
		}
		f.leafKinds[leaf] = unknownLeaf
	}
	for leaf, kind := range f.leafKinds {
		if kind != int96Leaf {
			continue
		}
		for _, g := range f.meta.RowGroups {
			if leaf < len(g.Columns) && g.Columns[leaf].MetaData != nil {
				if chunk := g.Columns[leaf].MetaData; chunk.Type == physicalInt96 { // chunks without rows may have any type
					chunk.Type = physicalFixed
				}
			}
		}
	}
	return nil
}

// legacyLists builds the new schema tree. Unchanged primitive nodes are shared with the
// old one.
type legacyLists struct {
	leaves []leafKind // kinds of the primitive columns visited so far
}

// fields returns the fields of a group that is not a list.
func (m *legacyLists) fields(n *schema.GroupNode) (schema.FieldList, error) {
	out := make(schema.FieldList, n.NumFields())
	for i := range out {
		var err error
		if field := n.Field(i); field.RepetitionType() == parquet.Repetitions.Repeated && !isNested(field) {
			out[i], err = m.repeatedField(field)
		} else {
			out[i], err = m.node(field, field.Name(), field.RepetitionType(), field.FieldID())
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// repeatedField returns a list for a repeated field that is not inside a list. The list is required
// and has the field's id; the field becomes the list's element, which is required, too.
func (m *legacyLists) repeatedField(n schema.Node) (schema.Node, error) {
	element, err := m.node(n, elementName, parquet.Repetitions.Required, NoFieldID)
	if err != nil {
		return nil, err
	}
	return newList(n.Name(), parquet.Repetitions.Required, element, n.FieldID())
}

// node returns the rewritten form of a node under the given name, with the given repetition and
// field id.
func (m *legacyLists) node(n schema.Node, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	group, ok := n.(*schema.GroupNode)
	if !ok {
		return m.primitive(n.(*schema.PrimitiveNode), name, repetition, id)
	}
	var fields schema.FieldList
	var err error
	switch {
	case isList(group) && hasOneRepeated(group):
		return m.list(group, name, repetition, id)
	case isMap(group) && hasOneRepeated(group) && hasOptionalKey(group):
		return m.mapAsList(group, name, repetition, id)
	case isMap(group) && hasOneRepeated(group):
		fields, err = m.mapEntries(group)
	default:
		fields, err = m.fields(group)
	}
	if err != nil {
		return nil, err
	}
	logical := group.LogicalType()
	if _, variant := logical.(schema.VariantLogicalType); variant || !logical.IsNested() {
		logical = nil // no table has variants, and the library refuses footers with some of them
	}
	return schema.NewGroupNodeLogical(name, repetition, fields, logical, id)
}

// list returns a three-level list.
func (m *legacyLists) list(n *schema.GroupNode, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	within, from := n.Field(0), parquet.Repetitions.Required
	if !isElement(n, within) {
		within = within.(*schema.GroupNode).Field(0)
		from = within.RepetitionType()
	}
	element, err := m.node(within, elementName, from, within.FieldID())
	if err != nil {
		return nil, err
	}
	return newList(name, repetition, element, id)
}

// mapEntries returns the only field of a map: the repeated group of keys and values.
func (m *legacyLists) mapEntries(n *schema.GroupNode) (schema.FieldList, error) {
	pair, ok := n.Field(0).(*schema.GroupNode)
	if !ok {
		return m.fields(n)
	}
	fields, err := m.fields(pair)
	if err != nil {
		return nil, err
	}
	out, err := schema.NewGroupNode(pair.Name(), parquet.Repetitions.Repeated, fields, pair.FieldID())
	return schema.FieldList{out}, err
}

// mapAsList returns a list of entries for a map with nullable keys, which Flink writes and the
// library refuses. The levels stay the same.
func (m *legacyLists) mapAsList(n *schema.GroupNode, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	fields, err := m.fields(n.Field(0).(*schema.GroupNode))
	if err != nil {
		return nil, err
	}
	pair, err := schema.NewGroupNode(convert.MapEntryName, parquet.Repetitions.Required, fields, NoFieldID)
	if err != nil {
		return nil, err
	}
	return newList(name, repetition, pair, id)
}

// hasOptionalKey reports whether the keys of a map are nullable.
func hasOptionalKey(n *schema.GroupNode) bool {
	pair, ok := n.Field(0).(*schema.GroupNode)
	return ok && pair.NumFields() == 2 && pair.Field(0).RepetitionType() == parquet.Repetitions.Optional
}

func (m *legacyLists) primitive(n *schema.PrimitiveNode, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	kind := leafKindOf(n)
	m.leaves = append(m.leaves, kind)
	if kind == ordinaryLeaf && name == n.Name() && repetition == n.RepetitionType() && id == n.FieldID() {
		return n, nil
	}
	physical, width, logical := n.PhysicalType(), n.TypeLength(), n.LogicalType()
	switch kind {
	case ordinaryLeaf, unknownLeaf:
	case int96Leaf:
		physical, width = parquet.Types.FixedLenByteArray, convert.Int96Bytes
	case narrowLeaf, nullLeaf:
		logical = schema.NoLogicalType{}
	}
	out, err := schema.NewPrimitiveNodeLogical(name, repetition, logical, physical, width, id)
	if err == nil {
		out.ColumnOrder = n.ColumnOrder
	}
	return out, err
}

// leafKind is the kind of change that rewriteLegacyTypes makes to a primitive column.
type leafKind int

const (
	ordinaryLeaf leafKind = iota
	int96Leaf
	narrowLeaf // an 8- or 16-bit integer
	nullLeaf   // all null
	// unknownLeaf is a column with an annotation that this version does not know.
	unknownLeaf
)

// maxNarrowBits is the maximum width of integers, signed or unsigned, whose values INT32
// stores unchanged. Large unsigned 32-bit integers are stored as negative numbers.
const maxNarrowBits = 16

func leafKindOf(n *schema.PrimitiveNode) leafKind {
	switch logical := n.LogicalType().(type) {
	case schema.IntLogicalType:
		if n.PhysicalType() == parquet.Types.Int32 && logical.BitWidth() <= maxNarrowBits {
			return narrowLeaf
		}
	case schema.NullLogicalType:
		return nullLeaf
	default:
		if n.PhysicalType() == parquet.Types.Int96 && logical.IsNone() {
			return int96Leaf
		}
	}
	return ordinaryLeaf
}

// elementName is the name of a list's element.
const elementName = "element"

// newList returns a three-level list.
func newList(name string, repetition parquet.Repetition, element schema.Node, id int32) (schema.Node, error) {
	group, err := schema.NewGroupNode("list", parquet.Repetitions.Repeated, schema.FieldList{element}, NoFieldID)
	if err != nil {
		return nil, err
	}
	return schema.NewGroupNodeLogical(name, repetition, schema.FieldList{group}, schema.NewListLogicalType(), id)
}

// isElement reports whether the repeated field of a list is its element, as in two-level
// lists, and not a group around the element.
func isElement(list *schema.GroupNode, repeated schema.Node) bool {
	group, ok := repeated.(*schema.GroupNode)
	switch {
	case !ok || group.NumFields() != 1:
		return true
	case group.Field(0).RepetitionType() == parquet.Repetitions.Repeated:
		return true
	default: // structs of one field, as Avro and Thrift write them
		return group.Name() == "array" || group.Name() == list.Name()+"_tuple"
	}
}

// hasOneRepeated reports whether a group has a single field, and this field is repeated. The
// library refuses lists and maps of any other structure.
func hasOneRepeated(n *schema.GroupNode) bool {
	return n.NumFields() == 1 && n.Field(0).RepetitionType() == parquet.Repetitions.Repeated
}

func isList(n schema.Node) bool { return n.LogicalType().Equals(schema.NewListLogicalType()) }
func isMap(n schema.Node) bool  { return n.LogicalType().Equals(schema.MapLogicalType{}) }

// isNested reports whether a field is annotated as a list or a map.
func isNested(n schema.Node) bool { return isList(n) || isMap(n) }
