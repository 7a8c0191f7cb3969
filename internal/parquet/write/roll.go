package write

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/chunk"
)

const (
	// rollRows is the maximum number of rows that are written between two checks of a file's size,
	// and minRollRows the minimum. For all files but the first, the size is checked at the latest
	// after rows that may take 1/rollDivisor of the target, but not before minRollRows rows.
	rollRows    = 8192
	minRollRows = 16
	rollDivisor = 8
)

// FileSequence creates the files that a Roll writes. The Roll calls Finish when a file is complete.
type FileSequence interface {
	// Next starts a file.
	Next(ctx context.Context) (chunk.Destination, error)
	// Finish is called when the file that Next started last is complete.
	Finish(ctx context.Context, w WrittenFile) error
}

// Roll writes batches to a sequence of files, each of about a target size. So that equal keys are
// in one file, a file that has reached the target size ends where the sort key changes, or when it
// exceeds the target by a quarter. Without Options.Sorting, a file may end at any row. It is not
// safe for concurrent use.
type Roll struct {
	to      FileSequence
	opts    Options
	target  int64
	key     []int // the top-level columns that contain sort columns
	current *DataWriter
	ended   bool              // whether a file is complete
	last    arrow.RecordBatch // the last row that was written, if rows are sorted
}

// NewRoll returns a Roll whose files take about target compressed bytes. The caller calls Release.
func NewRoll(to FileSequence, target int64, opts Options) (*Roll, error) {
	if target <= 0 {
		return nil, fault.New(fault.Invalid, "the size of files must be positive")
	}
	columns, err := newNodes(opts)
	if err != nil {
		return nil, err
	}
	r := &Roll{to: to, opts: opts, target: target}
	for i, c := range columns {
		for _, s := range opts.Sorting {
			if c.contains(s.FieldID) {
				r.key = append(r.key, i)
				break
			}
		}
	}
	return r, nil
}

// contains reports whether a primitive field in the column has the id.
func (n *fieldNode) contains(id int) bool {
	for _, l := range n.leaves(nil) {
		if l.id == id {
			return true
		}
	}
	return false
}

// Write adds a batch.
func (r *Roll) Write(ctx context.Context, b arrow.RecordBatch) error {
	perRow := batch.Size(b)/max(b.NumRows(), 1) + 1
	for at, rows := int64(0), b.NumRows(); at < rows; {
		to := min(at+r.step(perRow), rows)
		next, ends := to, false
		if r.current != nil && r.current.Bytes() >= r.target {
			next, ends = r.end(b, at, to)
		}
		if err := r.part(ctx, b, at, next); err != nil {
			return err
		}
		if ends {
			if err := r.finish(ctx); err != nil {
				return err
			}
		}
		at = next
	}
	return nil
}

// step returns how many rows, of about perRow bytes each, are written before the next check. The
// first file is checked every rollRows rows, even if it does not choose the encodings: the size of
// a file that does is unknown until the choice is made, and the row at which the first file ends
// must not depend on when that is.
func (r *Roll) step(perRow int64) int64 {
	if !r.ended {
		return rollRows
	}
	return min(rollRows, max(minRollRows, r.target/rollDivisor/perRow))
}

// end decides where the open file, which has reached the target size, ends. If it ends before one
// of the rows [from, to), end returns that row and true; otherwise it returns to and false.
func (r *Roll) end(b arrow.RecordBatch, from, to int64) (int64, bool) {
	next, changes := r.change(b, from, to)
	if !changes && r.current.Bytes() >= r.target+r.target/4 {
		return from, true
	}
	return next, changes
}

// change returns the first of the rows [from, to) whose sort key is not that of the row before.
func (r *Roll) change(b arrow.RecordBatch, from, to int64) (int64, bool) {
	if len(r.key) == 0 {
		return from, true
	}
	for i := from; i < to; i++ {
		before, row := b, i-1
		if i == 0 {
			before, row = r.last, 0
		}
		for _, c := range r.key {
			if !array.SliceEqual(before.Column(c), row, row+1, b.Column(c), i, i+1) {
				return i, true
			}
		}
	}
	return to, false
}

// part writes the rows [from, to) to the open file. It starts a file if none is open.
func (r *Roll) part(ctx context.Context, b arrow.RecordBatch, from, to int64) error {
	if from == to {
		return nil
	}
	if r.current == nil {
		destination, err := r.to.Next(ctx)
		if err != nil {
			return err
		}
		if r.current, err = New(ctx, destination, r.opts); err != nil {
			return err
		}
	}
	rows := b.NewSlice(from, to)
	defer rows.Release()
	if len(r.key) > 0 {
		if r.last != nil {
			r.last.Release()
		}
		r.last = b.NewSlice(to-1, to)
	}
	return r.current.Write(ctx, rows)
}

// finish ends the open file.
func (r *Roll) finish(ctx context.Context) error {
	out, err := r.current.Close(ctx)
	if err != nil {
		return err
	}
	r.current.Release()
	r.current, r.ended = nil, true
	return r.to.Finish(ctx, out)
}

// Close ends the open file. If no rows were written, there is no file.
func (r *Roll) Close(ctx context.Context) error {
	if r.current == nil {
		return nil
	}
	return r.finish(ctx)
}

// Release frees the memory of the Roll.
func (r *Roll) Release() {
	if r.current != nil {
		r.current.Release()
		r.current = nil
	}
	if r.last != nil {
		r.last.Release()
		r.last = nil
	}
}
