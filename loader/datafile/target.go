package datafile

import (
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

// Target is the table that rows are written to, and the mapping from columns of the rows to columns
// of the table.
type Target struct {
	// State is the state of the table.
	State *commit.TableState
	// Added are the columns that the table does not have yet.
	Added []commit.NewColumn
	// Fitted is the schema of the sorted rows. They have the columns of the table.
	Fitted *arrow.Schema
	// Layout describes the partition, key and order of these rows. It refers to columns by position
	// in Fitted.
	Layout extsort.Layout
	// SortOrder is the id of the sort order that the files declare; 0: the files declare no sort
	// order.
	SortOrder int

	columns []targetColumn
	uuids   []int // ids of the added columns of type uuid
	lineage []catalog.Field
	sorting []write.SortingColumn
}

// targetColumn is a column of the files.
type targetColumn struct {
	field arrow.Field // with field ids
	id    int
	from  int            // the index of the input column; -1: all values are null
	cast  arrow.DataType // the type to cast to; nil: no cast
}

// MatchOptions configure how columns are matched.
type MatchOptions struct {
	// Key has the names of the key columns. If it is empty, the key consists of the columns of the
	// table's buckets.
	Key []string
	// Evolve adds columns that the table does not have.
	Evolve bool
	// Lineage are the columns of row lineage, which follow the table's columns in the input. The
	// files keep them.
	Lineage []catalog.Field
}

// Match matches the columns of rows to the columns of a table in some state.
//
// If columns do not fit, the error is Invalid and lists all of them.
func Match(input *arrow.Schema, state *commit.TableState, o MatchOptions) (*Target, error) {
	conformed, err := conform.New(input)
	if err != nil {
		return nil, err
	}
	t := &Target{State: state}
	m := matching{schema: conformed.Schema(), raw: input, evolve: o.Evolve, target: t}
	if err := m.columns(); err != nil {
		return nil, err
	}
	fields := make([]arrow.Field, len(t.columns))
	for i, column := range t.columns {
		fields[i] = arrow.Field{Name: column.field.Name, Type: column.field.Type, Nullable: true}
		switch {
		case column.cast != nil:
			fields[i].Type = column.cast
		case column.from >= 0:
			fields[i].Type = input.Field(column.from).Type
		default:
			fields[i].Type = withoutIDs(state.Table, column)
		}
	}
	t.Fitted = arrow.NewSchema(fields, nil)
	if err := t.arrange(o.Key); err != nil {
		return nil, err
	}
	t.addLineage(o.Lineage, input.NumFields())
	return t, nil
}

// addLineage adds the columns of row lineage, which are in the input from position first on.
func (t *Target) addLineage(lineage []catalog.Field, first int) {
	fields := t.Fitted.Fields()
	for i, f := range lineage {
		t.columns = append(t.columns, targetColumn{field: identified(f.Name, f.Type, f.ID, true), id: f.ID, from: first + i})
		fields = append(fields, f.Arrow())
	}
	t.Fitted, t.lineage = arrow.NewSchema(fields, nil), lineage
}

// AsWritten returns a target whose rows stay in their order. The files declare the given sort
// order.
func (t *Target) AsWritten(declared int) *Target {
	out := *t
	out.Layout = extsort.Layout{Partition: t.Layout.Partition}
	if declared != t.SortOrder {
		out.SortOrder, out.sorting = 0, nil
	}
	return &out
}

// SameFiles reports whether files that were written for one target also fit the other target. This
// is so if the folder, the columns with their ids, the partitions and the order of the rows are the
// same.
func (t *Target) SameFiles(o *Target) bool {
	typed := func(a, b targetColumn) bool {
		return a.id == b.id && a.field.Name == b.field.Name && arrow.TypeEqual(a.field.Type, b.field.Type, arrow.CheckMetadata())
	}
	return t.State.DataFolder() == o.State.DataFolder() && t.State.Spec == o.State.Spec && t.SortOrder == o.SortOrder &&
		slices.EqualFunc(t.columns, o.columns, typed) && t.Fitted.Equal(o.Fitted) &&
		slices.Equal(t.Layout.Partition, o.Layout.Partition) && slices.Equal(t.Layout.Sort, o.Layout.Sort)
}

// FieldID returns the field id of a column, by its position in Fitted.
func (t *Target) FieldID(column int) int { return t.columns[column].id }

// withoutIDs returns the type of a column of the table, without field ids.
func withoutIDs(t *catalog.Table, column targetColumn) arrow.DataType {
	if f, ok := t.ByID(column.id); ok {
		return f.Type
	}
	return column.field.Type
}

// position returns the position of a column of the files by its field id, or -1.
func (t *Target) position(id int) int {
	return slices.IndexFunc(t.columns, func(c targetColumn) bool { return c.id == id })
}

// arrange finds the partition, key and order of the rows.
func (t *Target) arrange(key []string) error {
	var bucketed []int
	lengths := fixedLengths{}
	for _, p := range t.State.Table.Specs[t.State.Spec] {
		at := t.position(p.Source)
		if at < 0 {
			return fault.New(fault.Invalid, "partition field %s of the table is not of a top-level column, which is not supported by this version", p.Name).
				In(t.State.Table.Name, "").WithRemedy("write to the table with another program")
		}
		t.Layout.Partition = append(t.Layout.Partition, partition.By{Column: at, Transform: p.Transform})
		if p.Transform.Kind == catalog.Bucket {
			bucketed = append(bucketed, at)
			continue
		}
		if err := lengths.add(t.State.Table.Name, p.Name, t.State.UUIDs, t.columns[at].id, t.columns[at].field.Type); err != nil {
			return err
		}
	}
	t.Layout.Key = bucketed
	if len(key) > 0 {
		t.Layout.Key = nil
	}
	for _, name := range key {
		at := slices.IndexFunc(t.columns, func(column targetColumn) bool { return column.field.Name == name })
		if at < 0 {
			return UnknownColumn("key", name, t.names())
		}
		t.Layout.Key = append(t.Layout.Key, at)
	}
	t.order()
	return nil
}

// order sets the order of rows to the table's sort order, or to the key if the table has no sort
// order by which rows can be sorted.
func (t *Target) order() {
	var by []extsort.SortColumn
	fields := t.State.Table.SortOrders[t.State.SortOrder]
	for _, f := range fields {
		at := t.position(f.Source)
		if at < 0 || f.Transform.Kind != catalog.Identity || !sortkey.Supported(t.columns[at].field.Type) {
			by, fields = nil, nil
			break
		}
		by = append(by, extsort.SortColumn{Column: at, Order: sortkey.ColumnOrder{Descending: f.Descending, NullsFirst: f.NullsFirst}})
	}
	if len(fields) > 0 {
		t.SortOrder = t.State.SortOrder
	} else {
		for _, at := range t.Layout.Key {
			by = append(by, extsort.SortColumn{Column: at, Order: sortkey.ColumnOrder{NullsFirst: true}})
		}
	}
	t.Layout.Sort = by
	for _, s := range by {
		t.sorting = append(t.sorting, write.SortingColumn{FieldID: t.columns[s.Column].id, Descending: s.Order.Descending, NullsFirst: s.Order.NullsFirst})
	}
}

func (t *Target) names() []string {
	out := make([]string, len(t.columns))
	for i, c := range t.columns {
		out[i] = c.field.Name
	}
	return out
}

// fileSchema returns the schema of the data files.
func (t *Target) fileSchema() *arrow.Schema {
	fields := make([]arrow.Field, len(t.columns))
	for i, c := range t.columns {
		fields[i] = c.field
	}
	return arrow.NewSchema(fields, nil)
}

// fitBytes returns an upper bound of the bytes that fit allocates for a batch.
func (t *Target) fitBytes(b arrow.RecordBatch) int64 {
	bytes := int64(0)
	for i, c := range t.columns {
		if c.from < 0 || c.cast != nil {
			bytes += valueBytes(t.Fitted.Field(i).Type) * b.NumRows()
		}
	}
	return bytes
}

// valueBytes returns an upper bound of the bytes of a null, or of a number.
func valueBytes(t arrow.DataType) int64 {
	bytes := int64(17) // the widest number, and its validity
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

// fit converts a batch to the columns of the table.
func (t *Target) fit(b arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
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
			columns[i] = batch.Nulls(t.Fitted.Field(i).Type, int(b.NumRows()), mem)
		case c.cast != nil:
			var err error
			if to, ok := c.cast.(*arrow.FixedSizeBinaryType); ok {
				columns[i], err = uuidsOf(b.Column(c.from), to, mem)
			} else {
				columns[i], err = batch.Cast(b.Column(c.from), c.cast, mem)
			}
			if err != nil {
				return nil, fault.Op(err, "column %s", c.field.Name)
			}
		default:
			columns[i] = b.Column(c.from)
			columns[i].Retain()
		}
	}
	return array.NewRecordBatch(t.Fitted, columns, b.NumRows()), nil
}

// identified returns a field with a field id.
func identified(name string, t arrow.DataType, id int, nullable bool) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: nullable, Metadata: arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(id)})}
}

// UnknownColumn returns the error for a name that is not one of the columns.
func UnknownColumn(field, name string, columns []string) error {
	f := fault.Field{Field: field, Message: "there is no column " + strconv.Quote(name), Nearest: fault.Nearest(name, columns)}
	return fault.As(fault.Fields([]fault.Field{f})).WithRemedy("the columns are %s", strings.Join(columns, ", "))
}
