// Package lane makes one stream of a shard's lanes: in each step every lane
// gives the same number of rows, and a batch is the blocks of its lanes in
// ascending order, cut exactly (docs/spec/order.md).
//
// It opens pieces through a function that it is given, one after another in
// each lane, and reads no further than the batch asked for and, where a piece
// may be shorter than planned, the next row. The cut is the one place where
// staging columns are gathered. Position says where each lane stands, in rows
// of the final sequence, so that a reader opened there goes on with the very
// next row, whatever its batch size.
package lane

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// Open opens the final sequence of one piece of a lane, without its first
// skip rows. It is called only when a row of the piece is asked for. The
// lane releases what it returns.
type Open func(ctx context.Context, lane, piece int, skip int64) (array.RecordReader, error)

// Position is where a lane stands: Row rows of piece Piece were given. A
// finished lane stands at (number of pieces, 0).
type Position struct {
	Piece int
	Row   int64
}

// Unknown is the number of rows of a piece that filters or joins may shorten.
const Unknown = -1

// Lane is one lane of the shard and where it starts.
type Lane struct {
	Number int     // in the plan
	Pieces []int64 // rows of each piece's final sequence, or Unknown
	Start  Position
}

// Column says where an output column lies in the batches of a piece.
type Column struct {
	Index int // column of the batch
	Field int // field of that dictionary column's struct; Plain for the column itself
}

// Plain is the Field of a Column that is not behind a dictionary.
const Plain = -1

// Options are what a Reader is made of.
type Options struct {
	Lanes   []Lane
	Rows    int64         // per lane and step, at least 1
	Steps   int64         // end after so many steps; Unknown: when all lanes have ended
	Schema  *arrow.Schema // of the batches returned
	Columns []Column      // where each column of Schema comes from
	Open    Open
	Memory  memory.Allocator // of the batches; nil: the Go heap
	Closed  func()           // called once, after every piece was released; may be nil
}

// Reader is the stream of a shard. It is not safe for concurrent use.
type Reader struct {
	array.RecordReader
	options Options
	ctx     context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	lanes   []*cursor
	step    int64
}

// New makes the stream. Nothing is opened before the first Next.
func New(ctx context.Context, options Options) *Reader {
	r := &Reader{options: options, ctx: ctx}
	for _, l := range options.Lanes {
		r.lanes = append(r.lanes, newCursor(l, options.Open))
	}
	r.RecordReader = batch.FromFunc(options.Schema, r.next, r.close)
	return r
}

// Positions returns where the lanes stand after the batch last returned, in
// the order of Options.Lanes.
func (r *Reader) Positions() []Position {
	at := make([]Position, len(r.lanes))
	for i, l := range r.lanes {
		at[i] = l.at
	}
	return at
}

// Steps returns how many batches were returned so far.
func (r *Reader) Steps() int64 { return r.step }

func (r *Reader) close() {
	for _, l := range r.lanes {
		l.close()
	}
	if r.options.Closed != nil {
		r.options.Closed()
	}
}

// next cuts one batch: Rows rows of each lane that still has them.
func (r *Reader) next() (arrow.RecordBatch, error) {
	if r.step == r.options.Steps {
		return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
	}
	var runs []run
	defer func() {
		for _, x := range runs {
			x.batch.Release()
		}
	}()
	rows := int64(0)
	for _, l := range r.lanes {
		taken, err := l.take(r.ctx, r.options.Rows, &runs)
		if err != nil {
			return nil, err
		}
		if r.options.Steps != Unknown && taken < r.options.Rows {
			return nil, fault.New(fault.Internal, "lane %d gave %d of %d rows in step %d of %d", l.Number, taken, r.options.Rows, r.step, r.options.Steps)
		}
		rows += taken
	}
	if rows == 0 {
		return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
	}
	cut, err := r.gather(runs, rows)
	if err != nil {
		return nil, err
	}
	r.step++
	return cut, nil
}

// gather copies the rows of all runs into one batch.
func (r *Reader) gather(runs []run, rows int64) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(r.options.Columns))
	g := batch.NewGatherer(r.options.Memory)
	defer g.Release()
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range r.options.Columns {
		field := r.options.Schema.Field(i)
		gathered, err := column(g, c, field, runs)
		if err != nil {
			return nil, fault.Op(err, "gather column %q", field.Name)
		}
		columns = append(columns, gathered)
		if !field.Nullable && gathered.NullN() > 0 {
			return nil, fault.New(fault.Corrupt, "column %q is required and has %d nulls", field.Name, gathered.NullN())
		}
	}
	return array.NewRecordBatch(r.options.Schema, columns, rows), nil
}

// column gathers one column of all runs. A column that stands as it is in one
// batch alone is not copied: the result shares and keeps that batch's memory.
func column(g *batch.Gatherer, c Column, field arrow.Field, runs []run) (arrow.Array, error) {
	if len(runs) == 1 && c.Field == Plain {
		x := runs[0]
		return array.NewSlice(x.batch.Column(c.Index), int64(x.from), int64(x.from+x.rows)), nil
	}
	segments := make([]batch.Segment, len(runs))
	for i, x := range runs {
		segments[i] = c.Segment(x.batch, x.from, x.rows)
	}
	return g.Gather(field.Type, segments)
}

// run is a stretch of rows of one batch of a piece. It holds a reference.
type run struct {
	batch      arrow.RecordBatch
	from, rows int
}

// Segment returns so many rows of the column in a batch of a piece, as they are
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

// cursor walks one lane.
type cursor struct {
	Lane
	open   Open
	at     Position
	reader array.RecordReader // of piece at.Piece, nil if not open
	batch  arrow.RecordBatch  // borrowed from reader, nil if none
	used   int                // rows of batch that were given
}

func newCursor(l Lane, open Open) *cursor {
	c := &cursor{Lane: l, open: open, at: l.Start}
	c.advance()
	return c
}

// take gives up to n rows of the lane as runs; fewer only at the lane's end.
func (c *cursor) take(ctx context.Context, n int64, runs *[]run) (int64, error) {
	taken := int64(0)
	for taken < n && c.at.Piece < len(c.Pieces) {
		if err := c.fill(ctx); err != nil {
			return 0, fault.Op(err, "read piece %d of lane %d", c.at.Piece, c.Number)
		}
		if c.batch == nil {
			continue
		}
		rows := min(int(n-taken), int(c.batch.NumRows())-c.used)
		c.batch.Retain()
		*runs = append(*runs, run{batch: c.batch, from: c.used, rows: rows})
		c.used += rows
		c.at.Row += int64(rows)
		taken += int64(rows)
		if c.complete() && c.used < int(c.batch.NumRows()) {
			return 0, fault.New(fault.Corrupt, "piece %d of lane %d has more rows than the %d that were planned", c.at.Piece, c.Number, c.at.Row)
		}
		c.advance()
	}
	return taken, c.look(ctx)
}

// look finds out whether the lane has another row where the plan cannot tell,
// so that a cursor never stands before an end that nobody has seen: shards
// that ended at different steps can then be told from shards that were stopped
// at different steps.
func (c *cursor) look(ctx context.Context) error {
	for c.at.Piece < len(c.Pieces) && c.Pieces[c.at.Piece] == Unknown && (c.batch == nil || c.used == int(c.batch.NumRows())) {
		if err := c.fill(ctx); err != nil {
			return fault.Op(err, "read piece %d of lane %d", c.at.Piece, c.Number)
		}
	}
	return nil
}

// fill sees to it that batch has a row that was not given; batch is nil after
// it where the piece has ended and the next one is up.
func (c *cursor) fill(ctx context.Context) error {
	if c.batch != nil && c.used < int(c.batch.NumRows()) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.reader == nil {
		reader, err := c.open(ctx, c.Number, c.at.Piece, c.at.Row)
		if err != nil {
			return err
		}
		c.reader = reader
	}
	c.batch, c.used = nil, 0
	for c.reader.Next() {
		if c.reader.RecordBatch().NumRows() > 0 {
			c.batch = c.reader.RecordBatch()
			return nil
		}
	}
	if err := c.reader.Err(); err != nil {
		return err
	}
	if want := c.Pieces[c.at.Piece]; want != Unknown {
		return fault.New(fault.Corrupt, "the piece ended after %d rows, %d were planned", c.at.Row, want)
	}
	c.close()
	c.at = Position{Piece: c.at.Piece + 1}
	return nil
}

// advance moves a lane that has given all rows of a piece, where their number
// is known, to the start of the next.
func (c *cursor) advance() {
	for c.complete() {
		c.close()
		c.at = Position{Piece: c.at.Piece + 1}
	}
	invariant.Check(c.at.Piece <= len(c.Pieces), "lane %d stands behind its end", c.Number)
}

func (c *cursor) complete() bool {
	return c.at.Piece < len(c.Pieces) && c.Pieces[c.at.Piece] != Unknown && c.at.Row >= c.Pieces[c.at.Piece]
}

// close releases the open piece, if there is one.
func (c *cursor) close() {
	if c.reader != nil {
		c.reader.Release()
	}
	c.reader, c.batch, c.used = nil, nil, 0
}

// String names the position as errors and logs show it.
func (p Position) String() string { return fmt.Sprintf("piece %d, row %d", p.Piece, p.Row) }
