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
	// rollRows is the maximum number of rows that are written between two checks of a file's size, and minRollRows the
	// minimum. Unless the file is the first, rows that may take 1/rollDivisor of the target are checked earlier.
	rollRows    = 8192
	minRollRows = 16
	rollDivisor = 8
)

// FileSequence is where a Roll writes its files.
type FileSequence interface {
	// Next starts a file.
	Next(ctx context.Context) (chunk.Destination, error)
	// Finish ends the file that Next started last. It is complete.
	Finish(ctx context.Context, w WrittenFile) error
}

// Roll writes batches to a sequence of files, each of about a target size. A file ends where
// the sort key changes, unless that takes more than a quarter of the target, so that equal
// keys are in one file. Without Options.Sorting, it ends anywhere. It is not safe for concurrent use.
type Roll struct {
	to      FileSequence
	opts    Options
	target  int64
	key     []int // the top-level columns that have sort columns
	current *DataWriter
	ended   bool              // a file is complete
	last    arrow.RecordBatch // the row before, if rows are sorted
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

// step returns the number of rows of a size that are written before the next check. The first file is checked every rollRows
// rows, whether or not it chooses the encodings: its bytes are unknown until the choice is made, and where it ends must not
// depend on that time.
func (r *Roll) step(perRow int64) int64 {
	if !r.ended {
		return rollRows
	}
	return min(rollRows, max(minRollRows, r.target/rollDivisor/perRow))
}

// end returns the row among [from, to] that the open file, which is large enough, ends before, and
// whether it does.
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

// part writes the rows [from, to) to the open file, or starts one.
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

// Close ends the open file. Without rows there is no file.
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
