package lane

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// Weight is what the values of some columns take of the rows of a batch, in bytes:
// beside the others, and as one indexed column.
type Weight struct{ Plain, Indexed int64 }

// Weigh chooses the rows of the first batch, which the next Next returns, and weighs
// what could be indexed columns of it. It looks at values alone: not at validity,
// nor at how memory is rounded up. So of the same rows it is the same. Without a row
// nothing weighs.
func (r *Reader) Weigh(columns []IndexedColumn) ([]Weight, error) {
	if r.chosen == nil {
		if err := r.choose(); err != nil {
			return nil, err
		}
	}
	weights := make([]Weight, len(columns))
	if r.chosen.rows == 0 {
		return weights, nil
	}
	held, err := r.options.Budget.ReserveFor(r.ctx, "what an indexed column saves", 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	if err := fewerRows(held.GrowWait(r.ctx, r.indexedBytes(columns, r.chosen.rows))); err != nil {
		return nil, err
	}
	for i, x := range columns {
		if weights[i], err = r.weigh(x); err != nil {
			return nil, err
		}
	}
	return weights, nil
}

// Weighed returns how many rows were weighed and not returned yet.
func (r *Reader) Weighed() int64 {
	if r.chosen == nil {
		return 0
	}
	return r.chosen.rows
}

// weigh weighs one column.
func (r *Reader) weigh(of IndexedColumn) (Weight, error) {
	runs, rows := r.chosen.runs, int(r.chosen.rows)
	d := distinctRows{}
	if r.options.Requests != nil && of.Index == r.options.Requests.Index {
		d.requests = newRequestRows(r.options.Requests, of.Columns)
	}
	x, err := r.indexed(of, &d, runs, rows)
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

// bytes returns what the values of a column take, where segments takes it from the
// rows.
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

// Dictionary returns which column of a range's batches has the values of a column
// that lies behind a dictionary.
func (c Column) Dictionary() int {
	if c.Dense != nil {
		return c.Dense.Columns[0].Dictionary()
	}
	return c.Index
}
