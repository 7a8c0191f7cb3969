package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// Weight is the size in bytes that the values of some columns have in a batch: as plain columns,
// and together as one indexed column.
type Weight struct{ Plain, Indexed int64 }

// Weigh chooses the rows of the first batch, and returns a weight for each candidate for an indexed
// column. The following call of Next returns these rows. The weights include only values, not
// validity or padding, so they depend only on the rows. If there are no rows, all weights are 0.
func (r *Reader) Weigh(ctx context.Context, columns []IndexedColumn) ([]Weight, error) {
	if r.pending == nil {
		if err := r.choose(ctx); err != nil {
			return nil, err
		}
	}
	weights := make([]Weight, len(columns))
	if r.pending.rows == 0 {
		return weights, nil
	}
	held, err := r.options.Budget.ReserveFor(ctx, "the choice of indexed columns", 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	if err := fewerRows(held.GrowWait(ctx, r.cutter.indexedBytes(columns, r.pending.rows))); err != nil {
		return nil, err
	}
	computed := computation{ctx: ctx, memory: r.options.Memory, budget: r.options.Budget}
	defer computed.release()
	for i, x := range columns {
		if weights[i], err = r.cutter.weigh(&computed, x, r.pending.runs, int(r.pending.rows)); err != nil {
			return nil, err
		}
	}
	return weights, nil
}

// Weighed returns the number of rows that were weighed but not yet returned.
func (r *Reader) Weighed() int64 {
	if r.pending == nil {
		return 0
	}
	return r.pending.rows
}

// weigh weighs one column.
func (ct *cutter) weigh(e *computation, of IndexedColumn, runs []run, rows int) (Weight, error) {
	d := distinctRows{requests: ct.requestRows(of)}
	x, err := ct.index(of, &d, runs, rows)
	if err != nil {
		return Weight{}, err
	}
	defer x.release()
	all, distinct, w := e.rowsOf(runs), e.distinct(d.end()), Weight{Indexed: int64(rows) * int64(arrow.Int32SizeBytes)}
	for _, c := range of.Columns {
		plain, indexed, err := c.bytes(all, distinct, arrow.Int32Traits.CastFromBytes(x.slots.Bytes()))
		if err != nil {
			return Weight{}, err
		}
		w.Plain, w.Indexed = w.Plain+plain, w.Indexed+indexed
	}
	return w, nil
}

// bytes returns the sizes of the column's values in all rows of a batch and in its distinct rows.
// slots has the position of each row among the distinct rows.
func (c Column) bytes(all, distinct *rowSet, slots []int32) (plain, indexed int64, err error) {
	if c.Made != nil && c.Made.Expression == nil {
		width := int64(len(c.Made.Columns)) * int64(arrow.Float32SizeBytes)
		return all.rows * width, distinct.rows * width, nil
	}
	few, err := distinct.segments(c)
	if err != nil {
		return 0, 0, err
	}
	var every []batch.Segment
	if c.Made != nil { // an expression is evaluated only once for each distinct row
		every = []batch.Segment{{Values: few[0].Values, Indices: slots}}
	} else if every, err = all.segments(c); err != nil {
		return 0, 0, err
	}
	if plain, err = batch.ValueBytes(every); err != nil {
		return 0, 0, err
	}
	indexed, err = batch.ValueBytes(few)
	return plain, indexed, err
}

// Dictionary returns the dictionary column of a range's batches that has the values of a column.
func (c Column) Dictionary() int {
	if c.Made != nil {
		return c.Made.Columns[0].Dictionary()
	}
	return c.Index
}
