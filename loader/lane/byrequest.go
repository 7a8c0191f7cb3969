package lane

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// requestBegins is a sequence that says where requests begin: with each row whose key is
// not that of the row before, with each that has a null in its key, and with each window.
type requestBegins struct {
	Sequence
	ctx    context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	key    []int
	budget *budget.Budget
	held   *budget.Reservation // for goesOn and last
	window int64               // of the batch at hand
	last   []arrow.Array       // the key of the last row of the batch at hand, copied; nil before the first
	goesOn []bool              // rows of the batch at hand that go on with the request of the row before
	err    error
}

func newRequestBegins(ctx context.Context, of Sequence, key []int, b *budget.Budget) *requestBegins {
	return &requestBegins{Sequence: of, ctx: ctx, key: key, budget: b}
}

// CountRequests returns how many requests a sequence has, told apart by some columns of
// its batches. It reads all of it, and leaves it to the caller to release.
func CountRequests(ctx context.Context, of Sequence, key []int, b *budget.Budget) (int64, error) {
	of.Retain()
	r := newRequestBegins(ctx, of, key, b)
	defer r.Release()
	requests := int64(0)
	for r.Next() {
		for _, goesOn := range r.goesOn {
			if !goesOn {
				requests++
			}
		}
	}
	return requests, r.Err()
}

// Next implements array.RecordReader.
func (r *requestBegins) Next() bool {
	if r.err != nil || !r.Sequence.Next() {
		return false
	}
	if r.err = r.look(); r.err != nil {
		return false
	}
	return true
}

// Err implements array.RecordReader.
func (r *requestBegins) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Sequence.Err()
}

// Release implements array.RecordReader.
func (r *requestBegins) Release() {
	release(r.last)
	r.last = nil
	if r.held != nil {
		r.held.Release()
		r.held = nil
	}
	r.Sequence.Release()
}

// look notes where requests begin in the batch at hand.
func (r *requestBegins) look() error {
	b := r.RecordBatch()
	rows := int(b.NumRows())
	r.goesOn = r.goesOn[:0]
	if rows == 0 {
		return nil
	}
	if err := r.pay(int64(rows)); err != nil {
		return err
	}
	if cap(r.goesOn) < rows {
		r.goesOn = make([]bool, rows)
	}
	r.goesOn = r.goesOn[:rows]
	key := make([]arrow.Array, len(r.key))
	first := len(r.last) > 0 && r.window == r.Window()
	for k, at := range r.key {
		key[k] = b.Column(at)
		first = first && key[k].IsValid(0) && batch.SameRow(r.last[k], 0, key[k], 0)
	}
	batch.KeyRepeats(key, r.goesOn)
	r.goesOn[0] = first
	r.window = r.Window()
	return r.keep(b, rows-1)
}

// pay pays for what is noted of a batch, beside the key of its last row.
func (r *requestBegins) pay(bytes int64) error {
	if r.held == nil {
		held, err := r.budget.ReserveFor(r.ctx, "where requests begin", 0)
		if err != nil {
			return err
		}
		r.held = held
	}
	if more := bytes - r.held.Held(); more > 0 {
		return fewerRows(r.held.GrowWait(r.ctx, more))
	}
	return nil
}

// keep copies the key of a row: the batch is gone when the next one is looked at.
func (r *requestBegins) keep(b arrow.RecordBatch, row int) error {
	release(r.last)
	r.last = r.last[:0]
	bytes := int64(len(r.goesOn))
	for _, at := range r.key {
		key := b.Column(at)
		of := []batch.Segment{{Values: key, From: row, Rows: 1}}
		n, err := batch.ValueBytes(of)
		if err != nil {
			return err
		}
		bytes += n
		if err := r.pay(bytes); err != nil {
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

// rows returns how many rows of the batch at hand, from one on, stand before the n+1-th
// beginning of a request.
func (r *requestBegins) rows(from int, n int64) portion {
	var out portion
	for _, goesOn := range r.goesOn[from:] {
		if !goesOn {
			if out.counted == n {
				break
			}
			out.counted++
		}
		out.rows++
	}
	return out
}

// passRequests goes through the next n requests of the lane, fewer only at its end, and
// tells add of their rows: so many from the first of the batch at hand that was not given.
// Whether a request has ended shows in the next row; so the lane then stands before one
// that it has read, or before a range.
func (l *laneReader) passRequests(ctx context.Context, n int64, s *selection, add func(rows int) error) (portion, error) {
	var out portion
	for l.at.Range < len(l.Ranges) {
		if err := l.fill(ctx, s); err != nil {
			return portion{}, fault.Op(err, "read range %d of lane %d", l.at.Range, l.Number)
		}
		if l.batch == nil {
			if out.counted == n {
				break // the last one ended with its range
			}
			continue
		}
		here := l.begins.rows(l.used, n-out.counted)
		if here.rows > 0 {
			if err := add(int(here.rows)); err != nil {
				return portion{}, err
			}
		}
		l.used += int(here.rows)
		l.at.Row += here.rows
		out.rows, out.counted = out.rows+here.rows, out.counted+here.counted
		if l.used < int(l.batch.NumRows()) {
			break
		}
	}
	l.passed += out.counted
	return out, nil
}
