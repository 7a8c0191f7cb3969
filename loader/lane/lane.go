// Package lane merges a shard's lanes into one stream. In each step, every lane contributes a block
// of the same number of rows, or of requests. A batch consists of these blocks, in ascending order
// of the lanes, and has an exact size (docs/spec/order.md, docs/spec/request.md).
//
// The package opens ranges through a function, one after another in each lane. It reads only the
// rows of the requested batch and, if a range may be shorter than planned, the row after them.
// Staging values are copied only when a batch is cut: into every row or, in indexed columns, once
// for each staging row to which the batch refers (docs/spec/wire.md). A Position is the state of a
// lane, counted in rows of the final sequence. A reader that is opened at a Position continues with
// the next row, whatever its batch size.
package lane

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/trace"
)

// Open opens the final sequence of a range of a lane, without the rows before the position. It is
// called only when a row of the range is needed. The lane releases the sequence.
type Open func(ctx context.Context, lane int, at Position) (Sequence, error)

// Sequence reads the rows of a range, or of a run, in the order in which they are returned.
type Sequence interface {
	array.RecordReader
	// Window returns the number of the shuffle window of the current batch's rows; 0
	// if rows are not permuted within windows.
	Window() int64
}

// AsStored returns a sequence whose rows are not permuted.
func AsStored(rows array.RecordReader) Sequence { return asStored{rows} }

type asStored struct{ array.RecordReader }

// Window implements Sequence.
func (asStored) Window() int64 { return 0 }

// Position is the position of a lane. If rows are permuted within windows, it is after Row rows of
// window number Window of the lane's sequence number Range. Otherwise it is after Row rows of that
// sequence. The position of a finished lane is (number of sequences, 0, 0).
type Position struct {
	Range  int // index of one of the lane's ranges or, if rows are permuted within windows, of one of its runs
	Window int64
	Row    int64
}

// Unknown stands for the number of rows of a range whose rows filters or joins may drop.
const Unknown = -1

// Lane is one lane of the shard, with the position at which the stream starts.
type Lane struct {
	Number  int           // in the plan
	Ranges  []int64       // the number of rows of each final sequence, or Unknown
	Windows []WindowSizes // for each sequence; nil: rows are not permuted
	Start   Position
}

// WindowSizes describes the shuffle windows of a sequence whose number of rows is known.
type WindowSizes interface {
	// RowsBefore returns the number of rows in the windows before the given window.
	RowsBefore(window int64) int64
	// WindowAt returns the window of a row, counted from the first row of the first window.
	WindowAt(row int64) int64
}

// Column describes where the batches of a range have an output column.
type Column struct {
	Index int   // column of the batch
	Field int   // if that column is a dictionary of structs: the field of the struct; otherwise Plain
	Made  *Made // how the output is made of other columns, used instead of Index and Field; nil: it is not
}

// Made describes a column that is made of other columns: its values are those of an expression, or
// lists of float32 that are packed from several columns.
type Made struct {
	Columns    []Column      // none of them is packed
	Schema     *arrow.Schema // the names and types of Columns
	Expression Expression    // nil: Columns are numbers, which are packed
	Fill       *float32      // replaces nulls in packed columns; nil: a null is an error
}

// Plain is the Field of a Column that is not in a dictionary.
const Plain = -1

// SizedBy names the query field that sets the size of batches, and says in how many batches the
// rows, or requests, are that the field counts.
type SizedBy struct {
	Field   string
	Batches int
}

// Layout describes the columns of batches.
type Layout struct {
	Schema  *arrow.Schema
	Indexed []IndexedColumn // which columns of Schema are indexed
	Columns []Column        // where the columns of Schema that are not indexed come from, in the order of Schema
}

// Options are the options of a Reader.
type Options struct {
	Layout

	Lanes   []Lane
	Rows    int64    // rows per lane and step, at least 1; if Request is set, requests per lane and step
	Request []int    // columns of the ranges' batches whose values identify a request; nil: lanes contribute rows
	Grouped *Grouped // set if batches have a row for each request; nil: batches have a row for each row of the ranges
	Steps   int64    // end after this many steps; Unknown: when all lanes have ended
	Limit   int64    // end after this many rows, even within a step; 0: no limit
	Every   Every    // which of the steps to return
	Counted Counted  // if its Left is nil, rows were not counted
	// Requests describes the column of the ranges' batches that refers to rows of the same batch;
	// nil: there is no such column.
	Requests *Requests
	Open     Open
	Memory   memory.Allocator // of the batches; nil: the Go heap
	Cores    *cores.Cores     // copy values; nil: the caller's goroutine copies all of them
	Closed   func()           // called once, after all ranges were released; may be nil
	// Budget is the budget from which the memory of each batch is reserved, from before the batch
	// is made until its last release; nil: memory is unlimited.
	Budget *budget.Budget
	// MaxBytes is the maximum size of a batch; 0: no limit.
	MaxBytes int64
	// SizedBy names the query field that sets the size of batches, for remedies of errors.
	SizedBy SizedBy
}

// Marks reports positions within steps, for a stream with a single lane that contributes rows. They
// are the positions at which a stream with smaller batches, of Rows rows or of a multiple of Rows,
// would end a batch. When the rows of a step before such a position are chosen, Reached is called
// with the position and the number of these rows. It is not called at the end of a step, nor for a
// step that is skipped.
type Marks struct {
	Rows    int64 // 0: nothing is reported
	Reached func(at Position, rows int64)
}

// Reader is the stream of a shard. It is not safe for concurrent use.
type Reader struct {
	array.RecordReader
	options Options
	lanes   []*laneReader
	cutter  cutter
	track   *trace.Track // nil: nothing is recorded
	passed  Progress     // At, Consumed and Distinct are not set: lanes and cutter have these values
	last    rowCount     // of the batch last returned
	pending *pendingStep // the rows of the next batch, if they were weighed; otherwise nil
}

// pendingStep holds the rows of a batch that is not yet cut.
type pendingStep struct {
	*selection
	step
	before Progress
}

// New returns the stream. Nothing is opened before the first Next. ctx applies to all calls of
// Next.
func New(ctx context.Context, options Options) *Reader {
	r := &Reader{options: options, track: trace.Of(ctx)}
	r.SetLayout(options.Layout)
	if options.Memory == nil {
		r.options.Memory = batch.Default()
	}
	for _, l := range options.Lanes {
		r.lanes = append(r.lanes, newLaneReader(l, options))
	}
	r.RecordReader = batch.FromFuncContext(ctx, options.Schema, r.next, r.release)
	return r
}

// SetLayout sets the layout of the following batches.
func (r *Reader) SetLayout(of Layout) {
	r.options.Layout = of
	r.cutter = newCutter(&r.options)
}

// SetMarks sets the Marks for the steps whose rows are not yet chosen.
func (r *Reader) SetMarks(m Marks) {
	for _, l := range r.lanes {
		l.marks = m
	}
}

// Schema returns the current schema of the batches.
func (r *Reader) Schema() *arrow.Schema { return r.options.Schema }

// LastBatch describes the batch that was returned last. rows is the number of rows of the ranges in
// it. counted is the number of their requests if lanes contribute requests, and otherwise equal to
// rows.
func (r *Reader) LastBatch() (rows, counted int64) { return r.last.rows, r.last.counted }

func (r *Reader) release() {
	if r.pending != nil {
		r.pending.release()
		r.pending = nil
	}
	for _, l := range r.lanes {
		l.release()
	}
	if r.options.Closed != nil {
		r.options.Closed()
	}
}

// next cuts one batch: Rows rows of each lane that has rows left, up to Limit.
func (r *Reader) next(ctx context.Context) (arrow.RecordBatch, error) {
	if c := r.pending; c != nil && c.rows > 0 && !r.options.Every.takes(r.passed.Steps) {
		r.skipPending()
	}
	if r.pending == nil {
		if err := r.skip(ctx); err != nil {
			return nil, err
		}
		if err := r.choose(ctx); err != nil {
			return nil, err
		}
	}
	given := r.pending
	r.pending = nil
	defer given.release()
	if given.rows == 0 {
		return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
	}
	part := r.track.Enter(trace.Cut)
	out, err := r.cutter.cut(ctx, given)
	part.End(err)
	if err != nil {
		return nil, err
	}
	r.last = given.rowCount
	p := &r.passed
	p.Steps++
	p.Batches++
	p.Rows += given.rows
	p.Counted += given.counted
	p.PerLane += r.options.Rows
	if given.cut {
		p.PerLane += given.most - r.options.Rows
		p.Uneven = len(r.lanes) > 1
	}
	return out, nil
}

// choose chooses the rows of the next batch. At the end, it chooses no rows.
func (r *Reader) choose(ctx context.Context) error {
	c := &pendingStep{before: r.Progress(), selection: newSelection(r.options.Memory, new(budget.Reservation), r.options.Requests)}
	if r.passed.Steps == r.options.Steps || r.left() == 0 {
		r.pending = c
		return nil
	}
	held, err := r.options.Budget.ReserveFor(ctx, "the rows of a batch", 0)
	if err != nil {
		return err
	}
	c.held = held
	if c.step, err = r.selectStep(ctx, c.selection); err != nil {
		c.release()
		return err
	}
	r.pending = c
	return nil
}

// left returns how many rows may be returned until Limit is reached, or Unknown if there is no
// limit.
func (r *Reader) left() int64 {
	if r.options.Limit == 0 {
		return Unknown
	}
	return r.options.Limit - r.passed.Rows
}

// step holds the number of rows that all lanes contribute to one step.
type step struct {
	rowCount
	most int64 // the maximum that one lane contributes, in the unit of Options.Rows
	cut  bool  // Limit cut the step short: a lane that has not ended contributes less than other lanes, or nothing
}

// rowCount is a number of rows, and the size of the same rows in the unit of Options.Rows (rows or
// requests).
type rowCount struct{ rows, counted int64 }

// selectStep adds the rows of one step to a selection.
func (r *Reader) selectStep(ctx context.Context, s *selection) (step, error) {
	var out step
	left := r.left()
	for i, l := range r.lanes {
		wanted := r.options.Rows
		if left != Unknown {
			wanted = min(wanted, left-out.rows)
		}
		if wanted == 0 {
			out.cut = out.cut || slices.ContainsFunc(r.lanes[i:], (*laneReader).mayHaveMore)
			break
		}
		s.next()
		given, err := l.take(ctx, wanted, s)
		if err != nil {
			return step{}, err
		}
		if err := r.checkSteps(l, given.counted, 1); err != nil {
			return step{}, err
		}
		out.cut = out.cut || wanted < r.options.Rows && l.mayHaveMore()
		out.rows, out.counted, out.most = out.rows+given.rows, out.counted+given.counted, max(out.most, given.counted)
		if out.rows == left {
			continue // the next reader will find out whether the lane has another row
		}
		if err := l.lookAhead(ctx, s); err != nil {
			return step{}, err
		}
	}
	return out, r.checkCounted()
}

// Segment returns rows of the column in a batch of a range as a segment that can be copied.
func (c Column) Segment(b arrow.RecordBatch, from, rows int) batch.Segment {
	column := b.Column(c.Index)
	if c.Field == Plain {
		return batch.Segment{Values: column, From: from, Rows: rows}
	}
	d := column.(*array.Dictionary)
	indices := d.Indices().(*array.Int32).Int32Values()
	return batch.Segment{
		Values:  d.Dictionary().(*array.Struct).Field(c.Field),
		Indices: indices[from : from+rows],
	}
}
