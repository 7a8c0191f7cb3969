package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// requestBegins is a sequence that records where requests begin: a request begins at the first row
// of each window, at each row whose key differs from the key of the row before it, and at each row
// whose key has a null.
type requestBegins struct {
	array.RecordReader
	of        Sequence
	key       []int
	budget    *budget.Budget
	held      *budget.Reservation // for continues and last
	window    int64               // of the current batch
	last      []arrow.Array       // a copy of the key of the current batch's last row; nil before the first batch
	continues []bool              // for each row of the current batch: whether the row belongs to the same request as the row before it
}

func newRequestBegins(ctx context.Context, of Sequence, key []int, b *budget.Budget) *requestBegins {
	r := &requestBegins{of: of, key: key, budget: b}
	r.RecordReader = batch.FromFuncContext(ctx, of.Schema(), r.next, r.release)
	return r
}

// CountRequests returns the number of requests of a sequence. The key columns of the sequence's
// batches identify requests. CountRequests reads the whole sequence; the caller releases the
// sequence.
func CountRequests(ctx context.Context, of Sequence, key []int, b *budget.Budget) (int64, error) {
	of.Retain()
	r := newRequestBegins(ctx, of, key, b)
	defer r.Release()
	requests := int64(0)
	for r.Next() {
		for _, continues := range r.continues {
			if !continues {
				requests++
			}
		}
	}
	return requests, r.Err()
}

// Window implements Sequence.
func (r *requestBegins) Window() int64 { return r.of.Window() }

// next returns the next batch of the sequence.
func (r *requestBegins) next(ctx context.Context) (arrow.RecordBatch, error) {
	if !r.of.Next() {
		return nil, r.of.Err()
	}
	b := r.of.RecordBatch()
	if err := r.look(ctx, b); err != nil {
		return nil, err
	}
	b.Retain()
	return b, nil
}

func (r *requestBegins) release() {
	release(r.last)
	r.last = nil
	if r.held != nil {
		r.held.Release()
		r.held = nil
	}
	r.of.Release()
}

// look finds where requests begin in a batch.
func (r *requestBegins) look(ctx context.Context, b arrow.RecordBatch) error {
	rows := int(b.NumRows())
	r.continues = r.continues[:0]
	if rows == 0 {
		return nil
	}
	if err := r.reserve(ctx, int64(rows)); err != nil {
		return err
	}
	if cap(r.continues) < rows {
		r.continues = make([]bool, rows)
	}
	r.continues = r.continues[:rows]
	key := make([]arrow.Array, len(r.key))
	first := len(r.last) > 0 && r.window == r.Window()
	for k, at := range r.key {
		key[k] = b.Column(at)
		first = first && key[k].IsValid(0) && batch.SameRow(r.last[k], 0, key[k], 0)
	}
	batch.KeyRepeats(key, r.continues)
	r.continues[0] = first
	r.window = r.Window()
	return r.keep(ctx, b, rows-1)
}

// reserve reserves the memory of r.continues and r.last.
func (r *requestBegins) reserve(ctx context.Context, bytes int64) error {
	if r.held == nil {
		held, err := r.budget.ReserveFor(ctx, "the boundaries of requests", 0)
		if err != nil {
			return err
		}
		r.held = held
	}
	if more := bytes - r.held.Held(); more > 0 {
		return fewerRows(r.held.GrowWait(ctx, more))
	}
	return nil
}

// keep copies the key of a row, since the row's batch becomes invalid when the next batch is read.
func (r *requestBegins) keep(ctx context.Context, b arrow.RecordBatch, row int) error {
	release(r.last)
	r.last = r.last[:0]
	bytes := int64(len(r.continues))
	for _, at := range r.key {
		key := b.Column(at)
		of := []batch.Segment{{Values: key, From: row, Rows: 1}}
		n, err := batch.ValueBytes(of)
		if err != nil {
			return err
		}
		bytes += n
		if err := r.reserve(ctx, bytes); err != nil {
			return err
		}
		one, err := batch.Gather(key.DataType(), of, nil)
		if err != nil {
			return fault.Op(err, "read the key of a request")
		}
		r.last = append(r.last, one)
	}
	return nil
}

// rows counts rows of the current batch from row from on, up to the row at which request number n+1
// begins, or to the end of the batch. It also counts the requests that begin in these rows.
func (r *requestBegins) rows(from int, n int64) rowCount {
	var out rowCount
	for _, continues := range r.continues[from:] {
		if !continues {
			if out.counted == n {
				break
			}
			out.counted++
		}
		out.rows++
	}
	return out
}

// takeRequests advances by the next n requests of the lane, or by fewer at the lane's end. For each
// batch, it calls add with the number of rows of these requests, which are the next rows of the
// batch. Only the next row shows whether a request has ended. So takeRequests reads one row more,
// and the new position is before that row, or before a range.
func (l *laneReader) takeRequests(ctx context.Context, n int64, s *selection, add func(rows int) error) (rowCount, error) {
	var out rowCount
	for l.at.Range < len(l.Ranges) {
		if err := l.fill(ctx, s); err != nil {
			return rowCount{}, fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
		if l.batch == nil {
			if out.counted == n {
				break // the last request ended with its range
			}
			continue
		}
		here := l.begins.rows(l.used, n-out.counted)
		if here.rows > 0 {
			if err := add(int(here.rows)); err != nil {
				return rowCount{}, err
			}
		}
		l.used += int(here.rows)
		l.at.Row += here.rows
		out.rows, out.counted = out.rows+here.rows, out.counted+here.counted
		if l.used < int(l.batch.NumRows()) {
			break
		}
	}
	l.consumed += out.counted
	return out, nil
}
