package stage

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/partition"
)

// target is the table that rows are written to, and how their columns become its columns.
type target struct {
	state    *commit.TableState
	create   *commit.NewTable // nil: the table exists
	branches bool             // the branch does not exist and begins at the state's snapshot
	added    []commit.NewColumn
	uuids    []int // ids of those of type uuid

	columns []targetColumn
	fitted  *arrow.Schema // of the rows that are sorted
	layout  extsort.Layout
	sorting []write.SortingColumn
	ordered int // id of the sort order that files declare, or 0
}

// targetColumn is a column of the files.
type targetColumn struct {
	field arrow.Field // with field ids
	id    int
	from  int            // the column of the input; -1: null
	cast  arrow.DataType // nil: as it comes
}

// find returns the target of a request.
func (c *staging) find(ctx context.Context) (*target, error) {
	state, err := c.tables.State(ctx, c.request.Table, commit.Main)
	if fault.KindOf(err) == fault.NotFound {
		return c.plan(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	t := &target{state: state}
	if c.request.Branch != commit.Main {
		state, err := c.tables.State(ctx, c.request.Table, c.request.Branch)
		switch {
		case fault.KindOf(err) != fault.NotFound:
			t.state = state
		case !t.state.Table.HasSnapshot():
			return nil, fault.InvalidField("branch", "branch %s cannot begin at %s, which has no snapshot", c.request.Branch, commit.Main).
				In(c.request.Table, "").WithRemedy("stage the first rows to %s", commit.Main)
		default:
			t.branches, err = true, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return t, c.match(t)
}

// match matches the columns of the input and of the table.
func (c *staging) match(t *target) error {
	conformed, err := conform.New(c.input)
	if err != nil {
		return err
	}
	m := matching{schema: conformed.Schema(), raw: c.input, evolve: c.request.Evolve, target: t}
	if err := m.columns(); err != nil {
		return err
	}
	fields := make([]arrow.Field, len(t.columns))
	for i, column := range t.columns {
		fields[i] = arrow.Field{Name: column.field.Name, Type: column.field.Type, Nullable: true}
		switch {
		case column.cast != nil:
			fields[i].Type = column.cast
		case column.from >= 0:
			fields[i].Type = c.input.Field(column.from).Type
		default:
			fields[i].Type = withoutIDs(t.state.Table, column)
		}
	}
	t.fitted = arrow.NewSchema(fields, nil)
	return c.arrange(t)
}

// withoutIDs returns the type of a column of the table.
func withoutIDs(t *catalog.Table, column targetColumn) arrow.DataType {
	if f, ok := t.ByID(column.id); ok {
		return f.Type
	}
	return column.field.Type
}

// position returns the position of a column of the files by its field id, or -1.
func (t *target) position(id int) int {
	return slices.IndexFunc(t.columns, func(c targetColumn) bool { return c.id == id })
}

// arrange finds the partition, key and order of the rows.
func (c *staging) arrange(t *target) error {
	var bucketed []int
	lengths := fixedLengths{}
	for _, p := range t.state.Table.Specs[t.state.Spec] {
		at := t.position(p.Source)
		if at < 0 {
			return fault.New(fault.Invalid, "partition field %s of the table is not of a top-level column, which is not served by this version", p.Name).
				In(c.request.Table, "").WithRemedy("write to the table with another program")
		}
		t.layout.Partition = append(t.layout.Partition, partition.By{Column: at, Transform: p.Transform})
		if p.Transform.Kind == catalog.Bucket {
			bucketed = append(bucketed, at)
			continue
		}
		if err := lengths.add(c.request.Table, p.Name, t.state.UUIDs, t.columns[at]); err != nil {
			return err
		}
	}
	t.layout.Key = bucketed
	if len(c.request.Key) > 0 {
		t.layout.Key = nil
	}
	for _, name := range c.request.Key {
		at := slices.IndexFunc(t.columns, func(column targetColumn) bool { return column.field.Name == name })
		if at < 0 {
			return unknownColumn("key", name, t.names())
		}
		t.layout.Key = append(t.layout.Key, at)
	}
	if c.request.Mode == Replace && !replaces(t.state.Table.Specs[t.state.Spec]) {
		return onlyBuckets(c.request.Table)
	}
	t.order()
	return nil
}

// order takes the table's sort order, or the key if the table has none that rows can be sorted
// by.
func (t *target) order() {
	var by []extsort.SortColumn
	fields := t.state.Table.SortOrders[t.state.SortOrder]
	for _, f := range fields {
		at := t.position(f.Source)
		if at < 0 || f.Transform.Kind != catalog.Identity || !sortkey.Supported(t.columns[at].field.Type) {
			by, fields = nil, nil
			break
		}
		by = append(by, extsort.SortColumn{Column: at, Order: sortkey.ColumnOrder{Descending: f.Descending, NullsFirst: f.NullsFirst}})
	}
	if len(fields) > 0 {
		t.ordered = t.state.SortOrder
	} else {
		for _, at := range t.layout.Key {
			by = append(by, extsort.SortColumn{Column: at, Order: sortkey.ColumnOrder{NullsFirst: true}})
		}
	}
	t.layout.Sort = by
	for _, s := range by {
		t.sorting = append(t.sorting, write.SortingColumn{FieldID: t.columns[s.Column].id, Descending: s.Order.Descending, NullsFirst: s.Order.NullsFirst})
	}
}

func (t *target) names() []string {
	out := make([]string, len(t.columns))
	for i, c := range t.columns {
		out[i] = c.field.Name
	}
	return out
}

// fileSchema returns the schema of the data files.
func (t *target) fileSchema() *arrow.Schema {
	fields := make([]arrow.Field, len(t.columns))
	for i, c := range t.columns {
		fields[i] = c.field
	}
	return arrow.NewSchema(fields, nil)
}

// fitBytes returns an upper bound of the bytes that fit allocates for a batch.
func (t *target) fitBytes(b arrow.RecordBatch) int64 {
	bytes := int64(0)
	for i, c := range t.columns {
		if c.from < 0 || c.cast != nil {
			bytes += valueBytes(t.fitted.Field(i).Type) * b.NumRows()
		}
	}
	return bytes
}

// valueBytes returns an upper bound of the bytes of a null, or of a number.
func valueBytes(t arrow.DataType) int64 {
	bytes := int64(17) // of the widest number, and its validity
	switch t := t.(type) {
	case *arrow.FixedSizeBinaryType:
		bytes += int64(t.ByteWidth)
	case *arrow.StructType:
		for _, f := range t.Fields() {
			bytes += valueBytes(f.Type)
		}
	}
	return bytes
}

// fit returns a batch with the columns of the table.
func (t *target) fit(b arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	if mem == nil {
		mem = batch.Default()
	}
	columns := make([]arrow.Array, len(t.columns))
	defer func() {
		for _, a := range columns {
			if a != nil {
				a.Release()
			}
		}
	}()
	for i, c := range t.columns {
		switch {
		case c.from < 0:
			columns[i] = batch.Nulls(t.fitted.Field(i).Type, int(b.NumRows()), mem)
		case c.cast != nil:
			var err error
			if columns[i], err = batch.Cast(b.Column(c.from), c.cast, mem); err != nil {
				return nil, fault.Op(err, "column %s", c.field.Name)
			}
		default:
			columns[i] = b.Column(c.from)
			columns[i].Retain()
		}
	}
	return array.NewRecordBatch(t.fitted, columns, b.NumRows()), nil
}

// identified returns a field with a field id.
func identified(name string, t arrow.DataType, id int, nullable bool) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: nullable, Metadata: arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(id)})}
}

// unknownColumn is the error for a name that the columns lack.
func unknownColumn(field, name string, columns []string) error {
	f := fault.Field{Field: field, Message: "there is no column " + strconv.Quote(name), Nearest: fault.Nearest(name, columns)}
	return fault.As(fault.Fields([]fault.Field{f})).WithRemedy("the columns are %s", strings.Join(columns, ", "))
}
