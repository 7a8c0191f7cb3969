package write

import (
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/fault"
)

const fieldIDKey = "PARQUET:field_id"

// fieldNode is a field of the schema, at the top level or nested.
type fieldNode struct {
	id       int
	path     string // dotted, for errors
	nullable bool
	wanted   arrow.DataType // type in the batches
	encoded  arrow.DataType // type that the encoder requires, in which nested fields have generic names
	children []*fieldNode   // a list's element; a map's key and value
	uuid     bool
	bounds   valueBounds // of a primitive field
}

// newNodes returns the top-level fields of a schema.
func newNodes(opts Options) ([]*fieldNode, error) {
	b := nodeBuilder{opts: opts, seen: map[int]string{}}
	if opts.Schema == nil || opts.Schema.NumFields() == 0 {
		return nil, fault.New(fault.Invalid, "a Parquet file needs columns")
	}
	nodes, err := b.nodes("", opts.Schema.Fields())
	if err != nil {
		return nil, err
	}
	for _, ids := range [][]int{opts.UUIDs, opts.Bloom} {
		for _, id := range ids {
			if _, ok := b.seen[id]; !ok {
				return nil, fault.New(fault.Invalid, "the schema has no field with id %d", id)
			}
		}
	}
	return nodes, nil
}

// nodeBuilder makes the nodes of a schema.
type nodeBuilder struct {
	opts Options
	seen map[int]string // paths by field id
}

func (b nodeBuilder) nodes(parent string, fields []arrow.Field) ([]*fieldNode, error) {
	out := make([]*fieldNode, len(fields))
	for i, f := range fields {
		var err error
		if out[i], err = b.node(parent, f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b nodeBuilder) node(parent string, f arrow.Field) (*fieldNode, error) {
	n := &fieldNode{path: parent + f.Name, nullable: f.Nullable, wanted: f.Type}
	text, _ := f.Metadata.GetValue(fieldIDKey)
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		return nil, fault.New(fault.Invalid, "column %s has no field id", n.path)
	}
	if other, ok := b.seen[id]; ok {
		return nil, fault.New(fault.Invalid, "columns %s and %s have the same field id %d", other, n.path, id)
	}
	b.seen[id], n.id = n.path, id
	switch t := f.Type.(type) {
	case *arrow.ListType:
		n.children, err = b.nodes(n.path+".", []arrow.Field{t.ElemField()})
	case *arrow.MapType:
		key := t.KeyField()
		key.Nullable = false
		n.children, err = b.nodes(n.path+".", []arrow.Field{key, t.ItemField()})
	case *arrow.StructType:
		if t.NumFields() == 0 {
			return nil, fault.New(fault.Invalid, "column %s is a struct without fields, which Parquet lacks", n.path)
		}
		n.children, err = b.nodes(n.path+".", t.Fields())
	default:
		err = b.leaf(n)
	}
	if err != nil {
		return nil, err
	}
	n.encoded = n.encoderType()
	return n, nil
}

// leaf checks a primitive field.
func (b nodeBuilder) leaf(n *fieldNode) error {
	n.uuid = slices.Contains(b.opts.UUIDs, n.id)
	if fixed, ok := n.wanted.(*arrow.FixedSizeBinaryType); n.uuid && (!ok || fixed.ByteWidth != 16) {
		return fault.New(fault.Invalid, "column %s cannot be a uuid: its type is %s", n.path, n.wanted)
	}
	if ts, ok := n.wanted.(*arrow.TimestampType); ok && ts.Unit == arrow.Nanosecond && b.opts.FormatVersion < 3 {
		return fault.New(fault.Invalid, "column %s has timestamps in nanoseconds, which tables of format version %d lack", n.path, b.opts.FormatVersion).
			WithRemedy("cast the column to microseconds, or use a table of format version 3")
	}
	if n.bounds = newBounds(n.wanted); n.bounds == nil {
		return fault.New(fault.Invalid, "column %s has the type %s, which Iceberg tables lack", n.path, n.wanted).
			WithRemedy("cast the column")
	}
	if b.opts.wantsBloom(n.id) && n.wanted.ID() == arrow.BOOL {
		return fault.New(fault.Invalid, "column %s is boolean and cannot have a bloom filter", n.path)
	}
	return nil
}

// encoderType returns the type of the arrays that the encoder requires. Names of nested fields are
// generic, so that paths are unique.
func (n *fieldNode) encoderType() arrow.DataType {
	field := func(name string, c *fieldNode) arrow.Field {
		return arrow.Field{Name: name, Type: c.encoded, Nullable: c.nullable}
	}
	switch n.wanted.(type) {
	case *arrow.ListType:
		return arrow.ListOfField(field("element", n.children[0]))
	case *arrow.MapType:
		return arrow.MapOfFields(field("key", n.children[0]), field("value", n.children[1]))
	case *arrow.StructType:
		fields := make([]arrow.Field, len(n.children))
		for i, c := range n.children {
			fields[i] = field("f"+strconv.Itoa(i), c)
		}
		return arrow.StructOf(fields...)
	default:
		return n.wanted
	}
}

// leaves appends the primitive fields inside a field, in the order of the file.
func (n *fieldNode) leaves(into []*fieldNode) []*fieldNode {
	if len(n.children) == 0 {
		return append(into, n)
	}
	for _, c := range n.children {
		into = c.leaves(into)
	}
	return into
}

// inLists appends, for each primitive field inside a field, whether it is in a list or map.
func (n *fieldNode) inLists(is bool, into []bool) []bool {
	if len(n.children) == 0 {
		return append(into, is)
	}
	_, inStruct := n.wanted.(*arrow.StructType)
	for _, c := range n.children {
		into = c.inLists(is || !inStruct, into)
	}
	return into
}

// parquetSchema returns the schema of a file that has the given fields first, followed by those of
// nodes.
func parquetSchema(fields schema.FieldList, nodes []*fieldNode, sc *arrow.Schema) (*schema.Schema, error) {
	for i, n := range nodes {
		field, err := n.parquet(sc.Field(i).Name)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	root, err := schema.NewGroupNode("table", parquet.Repetitions.Required, fields, -1)
	if err != nil {
		return nil, err
	}
	return schema.NewSchema(root), nil
}

func (n *fieldNode) parquet(name string) (schema.Node, error) {
	repetition := parquet.Repetitions.Required
	if n.nullable {
		repetition = parquet.Repetitions.Optional
	}
	children := make(schema.FieldList, len(n.children))
	for i, c := range n.children {
		name := ""
		switch t := n.wanted.(type) {
		case *arrow.StructType:
			name = t.Field(i).Name
		case *arrow.ListType:
			name = "element"
		case *arrow.MapType:
			name = [...]string{"key", "value"}[i]
		}
		var err error
		if children[i], err = c.parquet(name); err != nil {
			return nil, err
		}
	}
	id := int32(n.id)
	switch n.wanted.(type) {
	case *arrow.ListType:
		return schema.ListOfWithName(name, children[0], repetition, id)
	case *arrow.MapType:
		return schema.MapOf(name, children[0], children[1], repetition, id)
	case *arrow.StructType:
		return schema.NewGroupNode(name, repetition, children, id)
	default:
		physical, logical, width := n.stored()
		if logical == nil {
			return schema.NewPrimitiveNode(name, repetition, physical, id, int32(width))
		}
		return schema.NewPrimitiveNodeLogical(name, repetition, logical, physical, width, id)
	}
}

// stored returns how Iceberg stores a primitive type: the physical type, the logical one or nil,
// and the width of fixed-length values or -1.
func (n *fieldNode) stored() (parquet.Type, schema.LogicalType, int) {
	switch t := n.wanted.(type) {
	case *arrow.BooleanType:
		return parquet.Types.Boolean, nil, -1
	case *arrow.Int32Type:
		return parquet.Types.Int32, nil, -1
	case *arrow.Int64Type:
		return parquet.Types.Int64, nil, -1
	case *arrow.Float32Type:
		return parquet.Types.Float, nil, -1
	case *arrow.Float64Type:
		return parquet.Types.Double, nil, -1
	case *arrow.Date32Type:
		return parquet.Types.Int32, schema.DateLogicalType{}, -1
	case *arrow.Time64Type:
		return parquet.Types.Int64, schema.NewTimeLogicalType(false, schema.TimeUnitMicros), -1
	case *arrow.TimestampType:
		unit := schema.TimeUnitMicros
		if t.Unit == arrow.Nanosecond {
			unit = schema.TimeUnitNanos
		}
		return parquet.Types.Int64, schema.NewTimestampLogicalType(t.TimeZone != "", unit), -1
	case *arrow.StringType:
		return parquet.Types.ByteArray, schema.StringLogicalType{}, -1
	case *arrow.FixedSizeBinaryType:
		if n.uuid {
			return parquet.Types.FixedLenByteArray, schema.UUIDLogicalType{}, t.ByteWidth
		}
		return parquet.Types.FixedLenByteArray, nil, t.ByteWidth
	case *arrow.Decimal128Type:
		logical := schema.NewDecimalLogicalType(t.Precision, t.Scale)
		switch {
		case t.Precision <= 9:
			return parquet.Types.Int32, logical, -1
		case t.Precision <= 18:
			return parquet.Types.Int64, logical, -1
		default:
			return parquet.Types.FixedLenByteArray, logical, int(pqarrow.DecimalSize(t.Precision))
		}
	default: // newBounds refused others
		return parquet.Types.ByteArray, nil, -1
	}
}
