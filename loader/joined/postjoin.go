package joined

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// postJoin is the part of a query's filter that names columns of staging tables or overlaid
// columns. It is evaluated on joined rows, and does not prune files.
type postJoin struct {
	filter  *expr.Filter
	schema  *arrow.Schema // the schema of the columns that the filter names
	columns []lane.Column // the location of each of them in a joined batch
	memory  memory.Allocator
	budget  *budget.Budget
	pass    []int32
}

// waiting is a reservation that waits for memory. It implements expr.Room.
type waiting struct {
	*budget.Reservation

	ctx context.Context //nolint:containedctx // of the call that filters rows
}

// Grow implements expr.Room.
func (w waiting) Grow(bytes int64) error { return w.GrowWait(w.ctx, bytes) }

// keep returns the rows of a joined batch that pass the filter. The caller releases the result,
// which may be empty.
func (f *postJoin) keep(ctx context.Context, joined arrow.RecordBatch) (arrow.RecordBatch, error) {
	held, err := f.budget.ReserveFor(ctx, "the filter of joined rows", 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	room := waiting{held, ctx}
	named, err := f.named(joined, room)
	if err != nil {
		return nil, err
	}
	defer named.Release()
	if f.pass, err = f.filter.Evaluate(named, f.pass, room); err != nil {
		return nil, fault.Op(err, "filter joined rows")
	}
	return batch.Filter(joined, f.pass, f.memory)
}

// named returns the columns of a joined batch that the filter names. Copies take room.
func (f *postJoin) named(joined arrow.RecordBatch, room waiting) (arrow.RecordBatch, error) {
	g := batch.NewGatherer(f.memory)
	defer g.Release()
	columns := make([]arrow.Array, 0, len(f.columns))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, at := range f.columns {
		column := joined.Column(at.Index)
		if at.Field == lane.Plain {
			column.Retain()
			columns = append(columns, column)
			continue
		}
		field, segments := f.schema.Field(i), []batch.Segment{at.Segment(joined, 0, int(joined.NumRows()))}
		bytes, err := g.Size(field.Type, segments)
		if err == nil {
			err = room.Grow(bytes)
		}
		var gathered arrow.Array
		if err == nil {
			gathered, err = g.Gather(field.Type, segments)
		}
		if err != nil {
			return nil, fault.Op(err, "gather column %q for the filter", field.Name)
		}
		columns = append(columns, gathered)
	}
	return array.NewRecordBatch(f.schema, columns, joined.NumRows()), nil
}
