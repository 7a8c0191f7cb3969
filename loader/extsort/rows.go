package extsort

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
)

// PartitionReader reads the rows of one partition in order. Each batch is charged to the budget for as long as it is
// referenced.
type PartitionReader struct {
	array.RecordReader
	order ordering
	limit int64 // of a batch, in bytes

	held    *budget.Reservation // for the sources, and for rows while they are copied
	feed    feed
	pending pendingRows
}

// feed produces sorted rows as references to rows of batches, its sources.
type feed interface {
	// sources returns the batches to which rows refer.
	sources() []*mergeSource
	// fill adds rows until the list is full, or memory is short. It adds no rows only if there are
	// no more.
	fill(ctx context.Context, held *budget.Reservation, to *pendingRows) error
	// trim releases sources that neither the rows in the list nor later rows need. It adjusts the
	// list to the new indices of the remaining sources.
	trim(held *budget.Reservation, left *pendingRows)
	// release releases all sources, but not the reservation of their memory.
	release()
}

// mergeSource is a batch from which rows are chosen in sorted order. The rows of the batch itself
// may be unsorted.
type mergeSource struct {
	columns  []arrow.Array
	key      *sortkey.RowKeys
	rowBytes int64             // on average
	batch    arrow.RecordBatch // owned by the source; nil: the columns have another owner
	reserved int64
}

// pendingRows is a list of rows to return next: row at[i] of source which[i].
type pendingRows struct {
	which, at []int32
	bytes     int64 // estimated
	limit     int64 // of bytes
}

// maxPending limits the rows of a batch.
const maxPending = 1 << 16

func (p *pendingRows) full() bool { return p.bytes >= p.limit || len(p.at) >= maxPending }

func (p *pendingRows) add(source, row int32, bytes int64) {
	p.which = append(p.which, source)
	p.at = append(p.at, row)
	p.bytes += bytes
}

// drop removes the first n rows.
func (p *pendingRows) drop(n int) {
	left := len(p.at) - n
	p.bytes = p.bytes * int64(left) / int64(len(p.at))
	copy(p.which, p.which[n:])
	copy(p.at, p.at[n:])
	p.which, p.at = p.which[:left], p.at[:left]
}

// newRows returns a reader of a feed. The reader owns the feed.
func newRows(ctx context.Context, o ordering, limit int64, from feed) (*PartitionReader, error) {
	held, err := o.opts.Budget.Reserve(what, 0)
	if err != nil {
		from.release()
		return nil, err
	}
	r := &PartitionReader{order: o, limit: limit, held: held, feed: from, pending: pendingRows{limit: limit}}
	r.RecordReader = batch.FromFunc(o.schema, func() (arrow.RecordBatch, error) {
		b, err := r.next(ctx)
		return b, fault.Op(err, "read the sorted rows to write")
	}, func() {
		r.feed.release()
		r.held.Release()
	})
	return r, nil
}

// next returns the next batch, or nil at the end.
func (r *PartitionReader) next(ctx context.Context) (arrow.RecordBatch, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.feed.fill(ctx, r.held, &r.pending); err != nil {
		return nil, err
	}
	if len(r.pending.at) == 0 {
		return nil, nil //nolint:nilnil // the end, as batch.FromFunc defines it
	}
	b, err := r.gather(ctx)
	if err != nil {
		return nil, err
	}
	r.pending.drop(int(b.NumRows()))
	r.feed.trim(r.held, &r.pending)
	return b, nil
}

// gather copies as many of the pending rows as fit in a batch.
func (r *PartitionReader) gather(ctx context.Context) (arrow.RecordBatch, error) {
	from := r.feed.sources()
	columns := make([][]arrow.Array, r.order.schema.NumFields())
	for i := range columns {
		for _, s := range from {
			columns[i] = append(columns[i], s.columns[i])
		}
	}
	for n := len(r.pending.at); ; n = (n + 1) / 2 {
		chosen, err := choose(r.order.schema, columns, r.pending.which[:n], r.pending.at[:n], r.order.opts.Memory)
		if err != nil {
			return nil, err
		}
		if chosen.bytes > r.limit && n > 1 {
			continue
		}
		held, err := r.order.opts.Budget.ReserveFor(ctx, what, 0)
		if err != nil {
			return nil, err
		}
		if n == 1 {
			err = held.GrowWait(ctx, chosen.bytes)
		} else if held.Grow(chosen.bytes) != nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		return charged(chosen, held)
	}
}

// charged gathers rows as a batch. The batch keeps the reservation of its memory until it is
// released.
func charged(rows *chosenRows, held *budget.Reservation) (arrow.RecordBatch, error) {
	b, err := rows.gather()
	if err != nil {
		held.Release()
		return nil, err
	}
	if more := rows.bytes - batch.Size(b); more > 0 {
		held.Shrink(more)
	}
	return batch.NewCharged(b, held), nil
}
