package joined

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
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
	pass    []int32
}

// keep returns the rows of a joined batch that pass the filter. The caller releases the result,
// which may be empty.
func (f *postJoin) keep(joined arrow.RecordBatch) (arrow.RecordBatch, error) {
	named, err := f.named(joined)
	if err != nil {
		return nil, err
	}
	defer named.Release()
	if f.pass, err = f.filter.Evaluate(named, f.pass); err != nil {
		return nil, fault.Op(err, "filter joined rows")
	}
	return batch.Filter(joined, f.pass, f.memory)
}

// named returns the columns of a joined batch that the filter names.
func (f *postJoin) named(joined arrow.RecordBatch) (arrow.RecordBatch, error) {
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
		segment := at.Segment(joined, 0, int(joined.NumRows()))
		gathered, err := batch.Gather(f.schema.Field(i).Type, []batch.Segment{segment}, f.memory)
		if err != nil {
			return nil, fault.Op(err, "gather column %q for the filter", f.schema.Field(i).Name)
		}
		columns = append(columns, gathered)
	}
	return array.NewRecordBatch(f.schema, columns, joined.NumRows()), nil
}
