// Package lane makes one stream of a shard's lanes: in each step every lane
// gives the same number of rows, or of requests, and a batch is the blocks of its lanes
// in ascending order, cut exactly (docs/spec/order.md, docs/spec/request.md).
//
// It opens ranges through a function that it is given, one after another in
// each lane, and reads no further than the batch asked for and, where a range
// may be shorter than planned, the next row. The cut is the one place where
// staging columns are gathered: into every row or, as indexed columns, once for
// each staging row that a batch refers to (docs/spec/wire.md). Position says where
// each lane stands, in rows of the final sequence, so that a reader opened
// there goes on with the very next row, whatever its batch size.
package lane

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// Open opens the final sequence of a range of a lane, without the rows that were given
// where the lane stands. It is called only when a row of the range is asked for. The
// lane releases what it returns.
type Open func(ctx context.Context, lane int, at Position) (Sequence, error)

// Sequence is the final sequence of a range.
type Sequence interface {
	array.RecordReader
	// Window returns the number of the shuffle window that the rows of the batch at hand
	// are of; 0 where rows are not permuted within windows.
	Window() int64
}

// AsStored is a sequence whose rows are not permuted.
func AsStored(rows array.RecordReader) Sequence { return asStored{rows} }

type asStored struct{ array.RecordReader }

// Window implements Sequence.
func (asStored) Window() int64 { return 0 }

// Position is where a lane stands: Row rows of its range number Range were
// given, or of window number Window of the range, if its rows are permuted within
// windows. A finished lane stands at (number of ranges, 0, 0).
type Position struct {
	Range  int
	Window int64
	Row    int64
}

// Unknown is the number of rows of a range that filters or joins may shorten.
const Unknown = -1

// Lane is one lane of the shard and where it starts.
type Lane struct {
	Number int     // in the plan
	Ranges []int64 // rows of each range's final sequence, or Unknown
	Window int64   // stored rows of a shuffle window; 0: rows are not permuted
	Start  Position
}

// Column says where an output column lies in the batches of a range.
type Column struct {
	Index int    // column of the batch
	Field int    // field of that dictionary column's struct; Plain for the column itself
	Dense *Dense // what it is packed of, in the place of Index and Field; nil: of one column
}

// Dense says what a column of rows of float32 is packed of.
type Dense struct {
	Columns []Column // of numbers, none of them packed
	Names   []string // of the columns, for errors
	Fill    *float32 // in the place of nulls; nil: a null is an error
}

// Plain is the Field of a Column that is not behind a dictionary.
const Plain = -1

// Options are what a Reader is made of.
type Options struct {
	Lanes   []Lane
	Rows    int64           // per lane and step, at least 1; requests, if Request is set
	Request []int           // columns of the ranges' batches whose values are one for the rows of a request; nil: lanes give rows
	Grouped *Grouped        // which columns requests have once, where batches have a row for each request; nil: a row for each row
	Steps   int64           // end after so many steps; Unknown: when all lanes have ended
	Limit   int64           // end after so many rows, within a step too; 0: none
	Every   Every           // which of the steps are given
	Counted Counted         // nil Left: nobody has counted
	Schema  *arrow.Schema   // of the batches returned
	Indexed []IndexedColumn // which columns of Schema are indexed
	Columns []Column        // where the others come from, in their order
	// Requests says which column of the ranges' batches refers to the rows of the
	// batch itself; nil: none does.
	Requests *Requests
	Open     Open
	Memory   memory.Allocator // of the batches; nil: the Go heap
	Closed   func()           // called once, after every range was released; may be nil
	// Budget pays for each batch before it is gathered, until its last release;
	// nil: unlimited.
	Budget *budget.Budget
	// MaxBytes is the most that a batch may take; 0: no limit.
	MaxBytes int64
	// GlobalOf is the shards over which global_batch_rows was asked for; 0: batch_rows
	// was. For the remedies of errors.
	GlobalOf int
}

// Reader is the stream of a shard. It is not safe for concurrent use.
type Reader struct {
	array.RecordReader
	options  Options
	ctx      context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	lanes    []*laneReader
	step     int64 // of those given, and of those left out
	batches  int64
	skipped  int64          // rows that were left out
	last     portion        // of the batch last returned
	rows     int64          // of all lanes
	given    int64          // per lane, see Given
	uneven   bool           // see Given
	distinct []distinctRows // per indexed column
	chosen   *chosen        // the rows of the next batch, where they were weighed; else nil
}

// chosen is the rows of a batch before they are cut.
type chosen struct {
	*selection
	step
	before []Position // of the lanes
	passed []int64    // see Passed, before
}

// New makes the stream. Nothing is opened before the first Next.
func New(ctx context.Context, options Options) *Reader {
	r := &Reader{options: options, ctx: ctx}
	r.Form(options.Schema, options.Columns, options.Indexed)
	if options.Memory == nil {
		r.options.Memory = memory.DefaultAllocator
	}
	for _, l := range options.Lanes {
		r.lanes = append(r.lanes, newLaneReader(l, options))
	}
	r.RecordReader = batch.FromFunc(options.Schema, r.next, r.close)
	return r
}

// Form sets which columns batches have from the next one on, as Options say it.
func (r *Reader) Form(schema *arrow.Schema, columns []Column, indexed []IndexedColumn) {
	r.options.Schema, r.options.Columns, r.options.Indexed = schema, columns, indexed
	r.distinct = make([]distinctRows, len(indexed))
	for i, x := range indexed {
		if r.options.Requests != nil && x.Index == r.options.Requests.Index {
			r.distinct[i].requests = newRequestRows(r.options.Requests, x.Columns)
		}
	}
}

// Schema returns the schema of the batches, by the last Form.
func (r *Reader) Schema() *arrow.Schema { return r.options.Schema }

// Positions returns where the lanes stand after the batch last returned, in
// the order of Options.Lanes.
func (r *Reader) Positions() []Position {
	if r.chosen != nil {
		return r.chosen.before
	}
	at := make([]Position, len(r.lanes))
	for i, l := range r.lanes {
		at[i] = l.at
	}
	return at
}

// Steps returns how many steps the lanes have passed after the batch last returned:
// those of its batches, and those that were left out before them; at the end, all.
func (r *Reader) Steps() int64 { return r.step }

// Given returns the rows that each lane gave so far, or left out as others give them;
// lanes that have ended count for nothing. Where lanes give requests it returns those.
// After a step that Limit cut it is the most that one gave, and uneven says that
// another may have given less.
func (r *Reader) Given() (rows int64, uneven bool) { return r.given, r.uneven }

// Batches returns how many batches were returned so far.
func (r *Reader) Batches() int64 { return r.batches }

// Gave returns how many rows the batch last returned has of the ranges, and of how many
// requests they are, where lanes give requests; else the rows again.
func (r *Reader) Gave() (rows, counted int64) { return r.last.rows, r.last.counted }

// Skipped returns how many rows were left out so far, as others give them.
func (r *Reader) Skipped() int64 { return r.skipped }

// Passed returns how many rows, or requests, each lane has given or left out so far, in
// the order of Options.Lanes.
func (r *Reader) Passed() []int64 {
	if r.chosen != nil {
		return r.chosen.passed
	}
	passed := make([]int64, len(r.lanes))
	for i, l := range r.lanes {
		passed[i] = l.passed
	}
	return passed
}

// Sent returns how many staging rows the batches returned so far hold, for
// each of Options.Indexed.
func (r *Reader) Sent() []int64 {
	sent := make([]int64, len(r.distinct))
	for i := range r.distinct {
		sent[i] = r.distinct[i].sent
	}
	return sent
}

func (r *Reader) close() {
	if r.chosen != nil {
		r.chosen.release()
		r.chosen = nil
	}
	for _, l := range r.lanes {
		l.close()
	}
	if r.options.Closed != nil {
		r.options.Closed()
	}
}

// next cuts one batch: Rows rows of each lane that still has them, as far as Limit
// goes.
func (r *Reader) next() (arrow.RecordBatch, error) {
	if c := r.chosen; c != nil && c.rows > 0 && !r.options.Every.takes(r.step) {
		r.leaveOut()
	}
	if r.chosen == nil {
		if err := r.skip(); err != nil {
			return nil, err
		}
		if err := r.choose(); err != nil {
			return nil, err
		}
	}
	given := r.chosen
	r.chosen = nil
	defer given.release()
	if given.rows == 0 {
		return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
	}
	out, err := r.cut(given)
	if err != nil {
		return nil, err
	}
	r.step++
	r.batches++
	r.last = given.portion
	r.rows += given.rows
	r.given += r.options.Rows
	if given.cut {
		r.given += given.most - r.options.Rows
		r.uneven = len(r.lanes) > 1
	}
	return out, nil
}

// choose chooses the rows of the next batch; none at the end.
func (r *Reader) choose() error {
	c := &chosen{before: r.Positions(), passed: r.Passed(), selection: newSelection(r.options.Memory, new(budget.Reservation), r.options.Requests)}
	if r.step == r.options.Steps || r.left() == 0 {
		r.chosen = c
		return nil
	}
	held, err := r.options.Budget.ReserveFor(r.ctx, "the rows of a batch", 0)
	if err != nil {
		return err
	}
	c.held = held
	if c.step, err = r.selectStep(c.selection); err != nil {
		c.release()
		return err
	}
	r.chosen = c
	return nil
}

// left returns how many rows Limit leaves, or Unknown.
func (r *Reader) left() int64 {
	if r.options.Limit == 0 {
		return Unknown
	}
	return r.options.Limit - r.rows
}

// step is what the lanes gave in one.
type step struct {
	portion
	most int64 // of one lane, counted as Options.Rows is
	cut  bool  // by Limit: a lane that may go on was asked for less than the others, or for nothing
}

// portion is a part of what lanes give: its rows, and the number of what Options.Rows
// counts, which is rows too, or requests.
type portion struct{ rows, counted int64 }

// selectStep adds the rows of one step to those of a batch.
func (r *Reader) selectStep(s *selection) (step, error) {
	var out step
	left := r.left()
	for i, l := range r.lanes {
		wanted := r.options.Rows
		if left != Unknown {
			wanted = min(wanted, left-out.rows)
		}
		if wanted == 0 {
			out.cut = out.cut || slices.ContainsFunc(r.lanes[i:], (*laneReader).goesOn)
			break
		}
		s.next()
		given, err := l.take(r.ctx, wanted, s)
		if err != nil {
			return step{}, err
		}
		if err := r.enough(l, given.counted, 1); err != nil {
			return step{}, err
		}
		out.cut = out.cut || wanted < r.options.Rows && l.goesOn()
		out.rows, out.counted, out.most = out.rows+given.rows, out.counted+given.counted, max(out.most, given.counted)
		if out.rows == left {
			continue // whether there is another row, whoever goes on finds out
		}
		if err := l.lookAhead(r.ctx, s); err != nil {
			return step{}, err
		}
	}
	return out, r.check()
}

// Segment returns so many rows of the column in a batch of a range, as they are
// gathered.
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
