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
	for i, x := range columns {
		if weights[i], err = r.cutter.weigh(x, r.pending.runs, int(r.pending.rows)); err != nil {
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
func (ct *cutter) weigh(of IndexedColumn, runs []run, rows int) (Weight, error) {
	d := distinctRows{requests: ct.requestRows(of)}
	x, err := ct.index(of, &d, runs, rows)
	if err != nil {
		return Weight{}, err
	}
	x.release()
	distinct, w := d.end(), Weight{Indexed: int64(rows) * int64(arrow.Int32SizeBytes)}
	for _, c := range of.Columns {
		plain, err := c.bytes(rowsOf(runs))
		if err != nil {
			return Weight{}, err
		}
		indexed, err := c.bytes(fieldOf(distinct))
		if err != nil {
			return Weight{}, err
		}
		w.Plain, w.Indexed = w.Plain+plain, w.Indexed+indexed
	}
	return w, nil
}

// bytes returns the size of a column's values, given a function that returns the column's segments.
func (c Column) bytes(segments func(Column) []batch.Segment) (int64, error) {
	if c.Dense == nil {
		return batch.ValueBytes(segments(c))
	}
	rows := 0
	for _, s := range segments(c.Dense.Columns[0]) {
		rows += s.Len()
	}
	return int64(rows) * int64(len(c.Dense.Columns)) * int64(arrow.Float32SizeBytes), nil
}

// Dictionary returns the dictionary column of a range's batches that has the values of a column.
func (c Column) Dictionary() int {
	if c.Dense != nil {
		return c.Dense.Columns[0].Dictionary()
	}
	return c.Index
}
