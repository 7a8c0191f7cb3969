package lane

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// ViewOptions describe a View.
type ViewOptions struct {
	Schema   *arrow.Schema // the view's schema: some columns of the batch, and some fields of its indexed columns
	From, To int64         // the view has rows [From, To) of the batch, at least one
	Memory   memory.Allocator
	Budget   *budget.Budget
}

// View returns some columns and rows of a batch. The batch was returned by a Reader, and the view
// is as a Reader with fewer columns and rows would return it. The view uses the memory of the
// batch, with two exceptions. If it has only some rows of the batch, the indices of indexed columns
// are new, and rows of their dictionaries may be copied. A column of texts or binary values may
// have to be copied into another form. The caller releases the view.
func View(ctx context.Context, of arrow.RecordBatch, o ViewOptions) (arrow.RecordBatch, error) {
	base, ok := of.(*batch.Charged)
	if !ok {
		return nil, fault.New(fault.Internal, "a shared batch has no reservation")
	}
	own, err := o.Budget.ReserveFor(ctx, "a view of a shared batch", 0)
	if err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, 0, o.Schema.NumFields())
	defer func() { release(columns) }()
	v := view{ViewOptions: o, own: own}
	for _, field := range o.Schema.Fields() {
		column, err := v.named(ctx, base, field)
		if err != nil {
			own.Release()
			return nil, fault.Op(err, "take column %q of a shared batch", field.Name)
		}
		columns = append(columns, column)
	}
	made := array.NewRecordBatch(o.Schema, columns, o.To-o.From)
	if own.Held() == 0 {
		own = nil
	}
	return base.View(made, own), nil
}

// view makes the columns of a View.
type view struct {
	ViewOptions

	own *budget.Reservation
}

// named returns the view's rows of the batch's column that has the name of the field.
func (v view) named(ctx context.Context, of arrow.RecordBatch, field arrow.Field) (arrow.Array, error) {
	at := of.Schema().FieldIndices(field.Name)
	if len(at) != 1 {
		return nil, fault.New(fault.Internal, "there is none")
	}
	return v.column(ctx, of.Column(at[0]), field)
}

// column returns the view's rows of a column.
func (v view) column(ctx context.Context, c arrow.Array, field arrow.Field) (arrow.Array, error) {
	if batch.MayBeCoded(batch.ValueType(c.DataType())) {
		return v.text(ctx, c, field)
	}
	indexed, ok := c.(*array.Dictionary)
	if !ok {
		if !arrow.TypeEqual(c.DataType(), field.Type) {
			return nil, fault.New(fault.Internal, "it is %s instead of %s", c.DataType(), field.Type)
		}
		return array.NewSlice(c, v.From, v.To), nil
	}
	dt, ok := field.Type.(*arrow.DictionaryType)
	if !ok {
		return nil, fault.New(fault.Internal, "it is indexed")
	}
	fields, err := fieldsOf(indexed.Dictionary().(*array.Struct), dt.ValueType.(*arrow.StructType))
	if err != nil {
		return nil, err
	}
	if v.From == 0 && v.To == int64(c.Len()) {
		return indexedArray(dt, indexed.Indices(), fields)
	}
	return v.part(ctx, dt, indexed.Indices().(*array.Int32).Int32Values()[v.From:v.To], fields)
}

// fieldsOf returns some fields of an array of structs. The caller does not release them.
func fieldsOf(rows *array.Struct, of *arrow.StructType) ([]arrow.Array, error) {
	all := rows.DataType().(*arrow.StructType)
	fields := make([]arrow.Array, of.NumFields())
	for i, f := range of.Fields() {
		at, ok := all.FieldIdx(f.Name)
		if !ok || !arrow.TypeEqual(all.Field(at).Type, f.Type) {
			return nil, fault.New(fault.Internal, "its rows lack field %q of type %s", f.Name, f.Type)
		}
		fields[i] = rows.Field(at)
	}
	return fields, nil
}

// part returns an indexed column of some indices. Its dictionary has only the rows to which these
// indices refer, in the order of the first reference to each. fields are the fields of the whole
// dictionary.
func (v view) part(ctx context.Context, dt *arrow.DictionaryType, indices []int32, fields []arrow.Array) (arrow.Array, error) {
	mem := v.Memory
	size, known := len(indices)*arrow.Int32SizeBytes, fields[0].Len()
	if err := v.own.GrowWait(ctx, batch.AllocatedSize(mem, int64(size))+int64(2*known*arrow.Int32SizeBytes)); err != nil {
		return nil, err
	}
	buffer := memory.NewResizableBuffer(mem)
	defer buffer.Release()
	buffer.Resize(size)
	used := references(indices, arrow.Int32Traits.CastFromBytes(buffer.Bytes()), known)
	own := int32Array(buffer)
	defer own.Release()
	taken, err := v.rows(ctx, dt.ValueType.(*arrow.StructType), fields, used)
	defer func() { release(taken) }()
	if err != nil {
		return nil, err
	}
	return indexedArray(dt, own, taken)
}

// references returns the distinct indices in the order of their first occurrence. It sets each
// element of own to the position of the corresponding index among the distinct ones. All indices
// must be less than rows.
func references(indices, own []int32, rows int) []int32 {
	used, found := make([]int32, 0, rows), make([]int32, rows) // found: 1 + the position; 0: none
	for i, index := range indices {
		if found[index] == 0 {
			used = append(used, index)
			found[index] = int32(len(used))
		}
		own[i] = found[index] - 1
	}
	return used
}

// rows returns the given rows of fields: slices if the rows are consecutive, otherwise copies.
func (v view) rows(ctx context.Context, of *arrow.StructType, fields []arrow.Array, rows []int32) ([]arrow.Array, error) {
	taken := make([]arrow.Array, 0, len(fields))
	if consecutive(rows) {
		for _, f := range fields {
			taken = append(taken, array.NewSlice(f, int64(rows[0]), int64(rows[0])+int64(len(rows))))
		}
		return taken, nil
	}
	g := batch.NewGatherer(v.Memory)
	defer g.Release()
	for i, f := range fields {
		segments := []batch.Segment{{Values: f, Indices: rows}}
		bytes, err := g.Size(of.Field(i).Type, segments)
		if err != nil {
			return taken, err
		}
		if err := v.own.GrowWait(ctx, bytes); err != nil {
			return taken, err
		}
		column, err := g.Gather(of.Field(i).Type, segments)
		if err != nil {
			return taken, err
		}
		taken = append(taken, column)
	}
	return taken, nil
}

// consecutive reports whether each row number is one more than the number before it. rows must not
// be empty.
func consecutive(rows []int32) bool {
	return int(rows[len(rows)-1])-int(rows[0]) == len(rows)-1 && slices.IsSorted(rows)
}
