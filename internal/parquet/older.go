package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

const (
	// int96Bytes is the width of an INT96: nanoseconds of a day, and a Julian day.
	int96Bytes = 12

	// The physical types, as footers number them.
	physicalInt96 = 3
	physicalFixed = 7
)

// modernize gives a decoded footer the form that writers use today, the only one
// that the library reads rightly, and takes away annotations that change no value. The
// pages stay as they are.
//
// Lists of two levels become lists of three, by the backward-compatibility rules of
// the format ("Lists" in its logical types): what is repeated is wrapped into a
// required group, which adds no level. INT96 becomes an array of as many bytes, which
// pages hold alike: the library would make nanoseconds of it, which do not reach far.
// Integers of 8 and 16 bits, with a sign or without, become the INT32 that they are stored
// as. A column that is annotated to hold nulls alone keeps its physical type, so that a
// value in it is seen.
func (f *Footer) modernize() error {
	m := modernizer{}
	root := f.meta.Schema.Root()
	fields, err := m.fields(root)
	if err != nil {
		return err
	}
	if root, err = schema.NewGroupNode(root.Name(), root.RepetitionType(), fields, root.FieldID()); err != nil {
		return err
	}
	f.meta.Schema, f.leafKinds = schema.NewSchema(root), m.leaves
	for leaf, kind := range f.leafKinds {
		if kind != int96Leaf {
			continue
		}
		for _, g := range f.meta.RowGroups {
			if leaf < len(g.Columns) && g.Columns[leaf].MetaData != nil {
				if chunk := g.Columns[leaf].MetaData; chunk.Type == physicalInt96 { // else it is not of its own type
					chunk.Type = physicalFixed
				}
			}
		}
	}
	return nil
}

// modernizer makes a tree of nodes from one that a file has. Primitive nodes that stay
// what they are go over into it.
type modernizer struct {
	leaves []leafKind // so far
}

// fields returns the fields of a group that is no list.
func (m *modernizer) fields(n *schema.GroupNode) (schema.FieldList, error) {
	out := make(schema.FieldList, n.NumFields())
	for i := range out {
		var err error
		if field := n.Field(i); field.RepetitionType() == parquet.Repetitions.Repeated && !isNested(field) {
			out[i], err = m.repeated(field)
		} else {
			out[i], err = m.node(field, field.Name(), field.RepetitionType(), field.FieldID())
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// repeated makes a list of a field that no list is around: the field is its element,
// and neither may be null. The field id is the list's.
func (m *modernizer) repeated(n schema.Node) (schema.Node, error) {
	element, err := m.node(n, elementName, parquet.Repetitions.Required, NoFieldID)
	if err != nil {
		return nil, err
	}
	return listOf(n.Name(), parquet.Repetitions.Required, element, n.FieldID())
}

// node returns a node with a name, repetition and field id that may be others.
func (m *modernizer) node(n schema.Node, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
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
		return m.listOfPairs(group, name, repetition, id)
	case isMap(group) && hasOneRepeated(group):
		fields, err = m.pairs(group)
	default:
		fields, err = m.fields(group)
	}
	if err != nil {
		return nil, err
	}
	logical := group.LogicalType()
	if !logical.IsNested() {
		logical = nil
	}
	return schema.NewGroupNodeLogical(name, repetition, fields, logical, id)
}

// list returns a list of three levels.
func (m *modernizer) list(n *schema.GroupNode, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	within, from := n.Field(0), parquet.Repetitions.Required
	if !isElement(n, within) {
		within = within.(*schema.GroupNode).Field(0)
		from = within.RepetitionType()
	}
	element, err := m.node(within, elementName, from, within.FieldID())
	if err != nil {
		return nil, err
	}
	return listOf(name, repetition, element, id)
}

// pairs returns the one field of a map: what is repeated there are keys and values.
func (m *modernizer) pairs(n *schema.GroupNode) (schema.FieldList, error) {
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

// listOfPairs returns a map whose keys may be null, as Flink writes them, as a list of
// its pairs: the library refuses it as a map. No level is another by that.
func (m *modernizer) listOfPairs(n *schema.GroupNode, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	fields, err := m.fields(n.Field(0).(*schema.GroupNode))
	if err != nil {
		return nil, err
	}
	pair, err := schema.NewGroupNode(pairName, parquet.Repetitions.Required, fields, NoFieldID)
	if err != nil {
		return nil, err
	}
	return listOf(name, repetition, pair, id)
}

// hasOptionalKey says whether the pairs of a map have a key that may be null.
func hasOptionalKey(n *schema.GroupNode) bool {
	pair, ok := n.Field(0).(*schema.GroupNode)
	return ok && pair.NumFields() == 2 && pair.Field(0).RepetitionType() == parquet.Repetitions.Optional
}

func (m *modernizer) primitive(n *schema.PrimitiveNode, name string, repetition parquet.Repetition, id int32) (schema.Node, error) {
	kind := leafKindOf(n)
	m.leaves = append(m.leaves, kind)
	if kind == ordinaryLeaf && name == n.Name() && repetition == n.RepetitionType() && id == n.FieldID() {
		return n, nil
	}
	physical, width, logical := n.PhysicalType(), n.TypeLength(), n.LogicalType()
	switch kind {
	case ordinaryLeaf:
	case int96Leaf:
		physical, width = parquet.Types.FixedLenByteArray, int96Bytes
	case narrowLeaf, nullLeaf:
		logical = schema.NoLogicalType{}
	}
	out, err := schema.NewPrimitiveNodeLogical(name, repetition, logical, physical, width, id)
	if err == nil {
		out.ColumnOrder = n.ColumnOrder
	}
	return out, err
}

// leafKind says which kind of primitive column of a file modernize changes.
type leafKind int

const (
	ordinaryLeaf leafKind = iota
	int96Leaf
	narrowLeaf // an integer of 8 or 16 bits
	nullLeaf   // nulls alone
)

// narrowBits is the width up to which INT32 holds every integer as itself, with a sign or
// without. Unsigned integers of 32 bits are stored as negative numbers.
const narrowBits = 16

func leafKindOf(n *schema.PrimitiveNode) leafKind {
	switch logical := n.LogicalType().(type) {
	case schema.IntLogicalType:
		if n.PhysicalType() == parquet.Types.Int32 && logical.BitWidth() <= narrowBits {
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

const (
	// elementName is what the element of a list is called.
	elementName = "element"
	// pairName is what the element of a list is called that is a map.
	pairName = "key_value"
)

// elementOf returns the element of a list that is no map.
func elementOf(stored arrow.DataType) (arrow.Field, bool) {
	list, ok := stored.(*arrow.ListType)
	if !ok || list.ElemField().Name == pairName {
		return arrow.Field{}, false
	}
	return list.ElemField(), true
}

// pairOf returns the key and the value of a map, or of a list that is one.
func pairOf(stored arrow.DataType) ([]arrow.Field, bool) {
	switch t := stored.(type) {
	case *arrow.MapType:
		return []arrow.Field{t.KeyField(), t.ItemField()}, true
	case *arrow.ListType:
		pair, ok := t.Elem().(*arrow.StructType)
		if ok && t.ElemField().Name == pairName && pair.NumFields() == 2 {
			return pair.Fields(), true
		}
	}
	return nil, false
}

// listOf is a list of three levels.
func listOf(name string, repetition parquet.Repetition, element schema.Node, id int32) (schema.Node, error) {
	group, err := schema.NewGroupNode("list", parquet.Repetitions.Repeated, schema.FieldList{element}, NoFieldID)
	if err != nil {
		return nil, err
	}
	return schema.NewGroupNodeLogical(name, repetition, schema.FieldList{group}, schema.NewListLogicalType(), id)
}

// isElement says whether what is repeated in a list is its element, and not a group
// around it: these are lists of two levels.
func isElement(list *schema.GroupNode, repeated schema.Node) bool {
	group, ok := repeated.(*schema.GroupNode)
	switch {
	case !ok || group.NumFields() != 1:
		return true
	case group.Field(0).RepetitionType() == parquet.Repetitions.Repeated:
		return true
	default: // as Avro and Thrift wrote structs of one field
		return group.Name() == "array" || group.Name() == list.Name()+"_tuple"
	}
}

// hasOneRepeated says whether a group has the form of lists and maps. The library
// refuses lists and maps of another.
func hasOneRepeated(n *schema.GroupNode) bool {
	return n.NumFields() == 1 && n.Field(0).RepetitionType() == parquet.Repetitions.Repeated
}

func isList(n schema.Node) bool { return n.LogicalType().Equals(schema.NewListLogicalType()) }
func isMap(n schema.Node) bool  { return n.LogicalType().Equals(schema.MapLogicalType{}) }

// isNested says whether a field is annotated as a list or a map.
func isNested(n schema.Node) bool { return isList(n) || isMap(n) }
