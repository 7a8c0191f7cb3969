package warehouse

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/catalog"
)

// physical is a column of a schema, and the origin of its values.
type physical struct {
	iceberg.NestedField
	arrow arrow.Field // with field ids
	from  int         // position among the table's last columns; gone: it is not one of these
	was   bool        // whether its values are those of a replaced column, before the replacement
}

// gone is the position of a dropped column.
const gone = -1

// columns has a table's columns throughout its history.
type columns struct {
	History
	fields     []catalog.Field
	kinds      []string // the types in the header
	ids        []int    // field ids of the fields
	olds       []int    // by change: field id of the column that it replaced or dropped; otherwise 0
	nested     map[int]int
	next       int
	schemas    []*iceberg.Schema   // by commit plus 1: the first is the new table's, the last is the current one
	lacked     []string            // columns that some file lacks because their values are partition values
	withoutIDs int                 // number of files without field ids
	stores     map[string][]Stored // by column, the forms other than Iceberg's that files store it in
	order      []int               // the order of columns in files and older schemas
	parted     partitioning
}

// newColumns assigns field ids to the columns in the order in which they were added. The columns
// with which the table was created come first.
func newColumns(r *rand.Rand, h History, t scenario.Table, fields []catalog.Field) (*columns, error) {
	c := &columns{History: h, fields: fields, ids: make([]int, len(fields)), olds: make([]int, len(h.Changes)), nested: map[int]int{}, stores: map[string][]Stored{}, next: 1}
	for _, col := range (&maker{table: &t}).columns() {
		c.kinds = append(c.kinds, col.kind)
	}
	late := func(name string) bool {
		return slices.ContainsFunc(h.Changes, func(x SchemaChange) bool { return x.Column == name && (x.Kind == Added || x.Kind == Replaced) })
	}
	number := func(id *int) {
		*id = c.next
		c.next += 100 // leaves ids for the fields inside of the column
	}
	for i, f := range fields {
		if !late(f.Name) {
			number(&c.ids[i])
		}
	}
	for i, x := range h.Changes {
		if x.Kind == Gone || x.Kind == Replaced {
			number(&c.olds[i])
		}
	}
	for i, f := range fields {
		if late(f.Name) {
			number(&c.ids[i])
		}
	}
	c.order = r.Perm(len(fields))
	for i := range len(h.Lost) + 2 {
		schema, err := c.schema(i - 1)
		if err != nil {
			return nil, err
		}
		if i > 0 && schema.Equals(c.schemas[i-1]) {
			schema = c.schemas[i-1]
		}
		c.schemas = append(c.schemas, schema)
	}
	return c, nil
}

// at returns the table's schema at the time of a commit. Commit -1 stands for the creation of the
// table, and the number after the last commit stands for the current schema.
func (c *columns) at(commit int) *iceberg.Schema { return c.schemas[commit+1] }

// schema computes the table's schema at the time of a commit; see at.
func (c *columns) schema(commit int) (*iceberg.Schema, error) {
	before := func(x SchemaChange) bool { return commit < x.At }
	all, err := c.columnsAt(before)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(c.Changes, before) { // the current schema has the order of the case
		slices.SortFunc(all, func(a, b physical) int { return a.from - b.from })
	}
	fields := make([]iceberg.NestedField, len(all))
	for i, p := range all {
		fields[i] = p.NestedField
	}
	return iceberg.NewSchema(0, fields...), nil
}

// stored are the columns that the files of a commit have.
func (c *columns) stored(commit int) ([]physical, error) {
	return c.columnsAt(func(x SchemaChange) bool { return x.old(commit) })
}

// columnsAt returns the columns at a time when some changes had not been made yet: those for which
// old returns true.
func (c *columns) columnsAt(old func(SchemaChange) bool) ([]physical, error) {
	var all []physical
	for _, at := range c.order {
		f := c.fields[at]
		p := physical{NestedField: iceberg.NestedField{ID: c.ids[at], Name: f.Name, Required: f.Required}, from: at}
		kind, absent, inside := c.kinds[at], false, false
		for i, x := range c.Changes {
			if x.Column != f.Name {
				continue
			}
			if x.Default != "" {
				p.InitialDefault, p.WriteDefault = defaults[c.kinds[at]].metadata, defaults[c.kinds[at]].metadata
			}
			if !old(x) {
				continue
			}
			switch x.Kind {
			case Added:
				absent = true
			case Replaced:
				p.ID, p.was, p.Required, p.InitialDefault, p.WriteDefault = c.olds[i], true, false, nil, nil
			case Renamed:
				p.Name = x.Was
			case Promoted:
				kind = x.Was
			case Relaxed:
				p.Required = true
			case Tightened:
				p.Required = false
			case Inside:
				inside = true
			case Gone:
			}
		}
		if absent {
			continue
		}
		if err := p.typed(kind); err != nil {
			return nil, err
		}
		if inside {
			p.renameInside()
		}
		all = append(all, p)
	}
	for i, x := range c.Changes {
		if x.Kind == Gone && old(x) {
			p := physical{NestedField: iceberg.NestedField{ID: c.olds[i], Name: x.Column}, from: gone}
			if err := p.typed("long"); err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// typed sets the type of a column, given the type's name in headers.
func (p *physical) typed(kind string) error {
	fields, err := scenario.Fields("x:" + kind)
	if err != nil {
		return err
	}
	n := numbering{next: p.ID}
	p.arrow, p.Type, err = n.field(arrow.Field{Name: p.Name, Type: fields[0].Type, Nullable: !p.Required}, kind)
	return err
}

// renameInside renames the last field of a struct.
func (p *physical) renameInside() {
	ice, fields := p.Type.(*iceberg.StructType), slices.Clone(p.arrow.Type.(*arrow.StructType).Fields())
	last := len(fields) - 1
	fields[last].Name = "old_" + fields[last].Name
	ice.FieldList[last].Name = fields[last].Name
	p.arrow.Type = arrow.StructOf(fields...)
}

// numbering assigns field ids to a column and to the fields inside it.
type numbering struct{ next int }

func (n *numbering) field(f arrow.Field, kind string) (arrow.Field, iceberg.Type, error) {
	f.Metadata = arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(n.next)})
	n.next++
	switch nested := f.Type.(type) {
	case *arrow.ListType:
		element, err := n.inside(nested.ElemField(), kind)
		f.Type = arrow.ListOfField(element.arrow)
		return f, &iceberg.ListType{ElementID: element.ID, Element: element.Type, ElementRequired: element.Required}, err
	case *arrow.MapType:
		key, err := n.inside(nested.KeyField(), kind)
		if err != nil {
			return f, nil, err
		}
		value, err := n.inside(nested.ItemField(), kind)
		f.Type = arrow.MapOfFields(key.arrow, value.arrow)
		return f, &iceberg.MapType{KeyID: key.ID, KeyType: key.Type, ValueID: value.ID, ValueType: value.Type, ValueRequired: value.Required}, err
	case *arrow.StructType:
		fields, out := make([]arrow.Field, nested.NumFields()), &iceberg.StructType{}
		for i := range fields {
			one, err := n.inside(nested.Field(i), kind)
			if err != nil {
				return f, nil, err
			}
			fields[i] = one.arrow
			out.FieldList = append(out.FieldList, one.NestedField)
		}
		f.Type = arrow.StructOf(fields...)
		return f, out, nil
	default:
		t, err := plainType(f.Type, kind)
		return f, t, err
	}
}

// inside assigns a field id to a field of a nested column. If a kind contains UUIDs, all its values
// of 16 bytes are UUIDs.
func (n *numbering) inside(f arrow.Field, kind string) (physical, error) {
	if strings.Contains(kind, "uuid") {
		kind = "uuid"
	}
	p := physical{NestedField: iceberg.NestedField{ID: n.next, Name: f.Name, Required: !f.Nullable}}
	var err error
	p.arrow, p.Type, err = n.field(f, kind)
	return p, err
}

func plainType(t arrow.DataType, kind string) (iceberg.Type, error) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return iceberg.PrimitiveTypes.Bool, nil
	case *arrow.Int32Type:
		return iceberg.PrimitiveTypes.Int32, nil
	case *arrow.Int64Type:
		return iceberg.PrimitiveTypes.Int64, nil
	case *arrow.Float32Type:
		return iceberg.PrimitiveTypes.Float32, nil
	case *arrow.Float64Type:
		return iceberg.PrimitiveTypes.Float64, nil
	case *arrow.StringType:
		return iceberg.PrimitiveTypes.String, nil
	case *arrow.BinaryType:
		return iceberg.PrimitiveTypes.Binary, nil
	case *arrow.Date32Type:
		return iceberg.PrimitiveTypes.Date, nil
	case *arrow.Time64Type:
		return iceberg.PrimitiveTypes.Time, nil
	case *arrow.Decimal128Type:
		return iceberg.DecimalTypeOf(int(t.Precision), int(t.Scale)), nil
	case *arrow.FixedSizeBinaryType:
		if kind == "uuid" && t.ByteWidth == uuidBytes {
			return iceberg.PrimitiveTypes.UUID, nil
		}
		return iceberg.FixedTypeOf(t.ByteWidth), nil
	case *arrow.TimestampType:
		return timestampType(t), nil
	default:
		return nil, fmt.Errorf("warehouse writes no %s", t)
	}
}

// uuidBytes is the width of a UUID.
const uuidBytes = 16

func timestampType(t *arrow.TimestampType) iceberg.Type {
	switch {
	case t.Unit == arrow.Nanosecond && t.TimeZone == "":
		return iceberg.PrimitiveTypes.TimestampNs
	case t.Unit == arrow.Nanosecond:
		return iceberg.PrimitiveTypes.TimestampTzNs
	case t.TimeZone == "":
		return iceberg.PrimitiveTypes.Timestamp
	default:
		return iceberg.PrimitiveTypes.TimestampTz
	}
}

// seen returns a table in the form that planning sees: with the field ids of the written table.
func (c *columns) seen(t *catalog.Table) *catalog.Table {
	out := &catalog.Table{Name: t.Name, Fields: slices.Clone(t.Fields), Specs: map[int]catalog.Spec{}}
	for i := range out.Fields {
		out.Fields[i].ID = c.ids[i]
	}
	for id, spec := range t.Specs {
		spec = slices.Clone(spec)
		for i := range spec {
			spec[i].Source = c.ids[spec[i].Source-1]
		}
		out.Specs[id] = spec
	}
	return out
}
