package shuffle

import (
	"cmp"
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// JoinedColumns describes the joined rows: the positions of the columns that PriorityReader added,
// which are null in the batches of Windows.
type JoinedColumns struct {
	Ordinal, Priority int // columns
	// Requests, if not nil, is a column that refers to the rows of its own batch of
	// training rows, which the join does not reserve beyond that batch.
	Requests *int
	// Begins is called with the number of each window before its rows are collected: those of the windows
	// before it have been returned.
	Begins func(window int64)
	// Ended is called when all rows were collected. Its error ends the rows. Closed is called after all parts
	// were released. Each may be nil.
	Ended  func() error
	Closed func()
	// Start is the first window, and Skip the number of its rows to skip.
	Start, Skip int64
	// BatchRows is the maximum number of rows of a batch, at least 1.
	BatchRows int
}

// refersToItself reports whether a column refers to the rows of its own batch.
func (j JoinedColumns) refersToItself(column int) bool {
	return j.Requests != nil && *j.Requests == column
}

// PartRows is the joined rows of one part of a run, in the part's order: those of PriorityReader after joins and
// filters. No batch has rows of two windows.
type PartRows interface {
	array.RecordReader
	Window() int64      // of the current batch
	Place() StoredPlace // of its first row
}

// StoredPlace is the stored place of a row in its run.
type StoredPlace struct {
	Range int   // of those of the run, as they are stored
	Row   int64 // number in the split
}

// compare orders places as rows are stored.
func (p StoredPlace) compare(o StoredPlace) int {
	return cmp.Or(cmp.Compare(p.Range, o.Range), cmp.Compare(p.Row, o.Row))
}

// Windows returns the rows of a run window by window, and those of a window by
// priority. No batch has rows of two windows.
type Windows struct {
	array.RecordReader
	options Options
	joined  JoinedColumns
	parts   []*pendingPart

	number  int64
	window  *collected    // the current one; nil before the first, and at the end
	held    *room         // reserves the window
	left    order         // of the remaining rows
	outputs []arrow.Array // of the current batch
	out     *room         // reserves the other columns of the current batch
}

// pendingPart is a part whose current batch, if it has one, was not collected.
type pendingPart struct {
	PartRows
	pending bool
	ended   bool
}

// NewWindows takes ownership of the parts of a run, at least one. It is Invalid if window joined.Start has fewer rows
// than joined.Skip.
func NewWindows(ctx context.Context, parts []PartRows, joined JoinedColumns, options Options) (*Windows, error) {
	w := &Windows{options: options, joined: joined}
	for _, p := range parts {
		w.parts = append(w.parts, &pendingPart{PartRows: p})
	}
	var err error
	if w.held, err = options.room(ctx, "a shuffle window"); err == nil {
		w.out, err = options.room(ctx, "rows of a shuffle window")
	}
	if err != nil {
		w.releaseParts()
		return nil, err
	}
	fields := parts[0].Schema().Fields()
	for _, i := range []int{joined.Ordinal, joined.Priority} {
		fields[i] = arrow.Field{Name: fields[i].Name, Type: arrow.Null, Nullable: true}
	}
	w.RecordReader = batch.FromFuncContext(ctx, arrow.NewSchema(fields, nil), w.next, w.release)
	return w, nil
}

// Window returns the number of the window of the current batch's rows.
func (w *Windows) Window() int64 { return w.number }

func (w *Windows) release() {
	w.releaseWindow()
	w.releaseParts()
	w.held.Release()
	w.out.Release()
}

func (w *Windows) releaseParts() {
	for _, p := range w.parts {
		p.Release()
	}
	if w.joined.Closed != nil {
		w.joined.Closed()
	}
}

// releaseWindow releases the current window.
func (w *Windows) releaseWindow() {
	if w.window != nil {
		w.window.passed(w.held, w.outputs)
		w.window.release()
		w.window, w.outputs = nil, nil
	}
	w.held.Shrink(w.held.Held())
}

// next returns the next rows.
func (w *Windows) next(ctx context.Context) (arrow.RecordBatch, error) {
	w.out.Shrink(w.out.Held()) // the consumer has the previous batch
	if w.window != nil {
		w.window.passed(w.held, w.outputs)
		w.outputs = nil
	}
	for len(w.left.numbers) == 0 {
		w.releaseWindow()
		if more, err := w.begin(ctx); !more || err != nil {
			return nil, err
		}
	}
	n := min(w.joined.BatchRows, len(w.left.numbers))
	w.outputs = w.window.nextOutputs(n)
	b, err := w.window.choose(ctx, w.Schema(), w.out, w.left.first(n), w.outputs)
	w.left = w.left.from(n)
	return b, err
}

// begin collects and sorts the next window. It reports whether there is one.
func (w *Windows) begin(ctx context.Context) (bool, error) {
	c, err := w.collect(ctx)
	if err != nil {
		return false, err
	}
	w.window = c
	skip, rows := w.joined.Skip, int64(0)
	w.joined.Skip = 0
	if c != nil && w.number == w.joined.Start {
		rows = c.rows
	}
	if skip > rows {
		return false, fault.InvalidField("cursor.at", "window %d has %d rows, but the cursor is at row %d", w.joined.Start, rows, skip).
			WithRemedy("resume with an unchanged cursor of this table and server version")
	}
	if c == nil {
		return false, nil
	}
	if err := w.sort(ctx); err != nil {
		return false, err
	}
	w.left = w.left.from(int(skip))
	if err := c.mergeDictionaries(ctx, w.held); err != nil {
		return false, err
	}
	return true, c.permute(ctx, w.held, w.left, w.joined.BatchRows)
}

// collect reads the rows of the next window; nil at the end.
func (w *Windows) collect(ctx context.Context) (*collected, error) {
	some, err := w.pullAll()
	if err == nil && !some && w.joined.Ended != nil {
		err = w.joined.Ended()
	}
	if err != nil || !some {
		return nil, err
	}
	if w.joined.Begins != nil {
		w.joined.Begins(w.number)
	}
	c := &collected{joined: w.joined, memory: w.options.Memory, kept: batch.Retained{}}
	for _, p := range w.parts {
		for p.pending && p.Window() == w.number {
			if err := c.add(ctx, w.held, p.RecordBatch(), p.Place()); err != nil {
				c.release()
				return nil, err
			}
			p.pending = false
			if err := p.pull(); err != nil {
				c.release()
				return nil, err
			}
		}
	}
	c.inStoredOrder()
	return c, nil
}

// pullAll moves each part to its next batch and w.number to the next window. It reports whether there is one.
func (w *Windows) pullAll() (some bool, err error) {
	for _, p := range w.parts {
		if err := p.pull(); err != nil {
			return false, err
		}
		if p.pending && (!some || p.Window() < w.number) {
			some, w.number = true, p.Window()
		}
	}
	return some, nil
}

// pull moves to the next joined batch that has rows, unless there is a pending one.
func (p *pendingPart) pull() error {
	for !p.pending && !p.ended {
		if !p.Next() {
			p.ended = true
			return p.Err()
		}
		p.pending = p.RecordBatch().NumRows() > 0
	}
	return nil
}

// sort sorts the rows of the window.
func (w *Windows) sort(ctx context.Context) error {
	c := w.window
	if err := w.held.grow(ctx, c.rows*bytesOfSorting); err != nil {
		return err
	}
	priorities := make([][]uint64, len(c.priorities))
	for i, part := range c.priorities {
		priorities[i] = part.(*array.Uint64).Uint64Values()
	}
	w.left = sortRows(priorities)
	w.held.Shrink(c.rows*(bytesOfSorting-bytesOfOrder) + c.kept.Remove(c.priorities))
	for _, part := range c.priorities {
		part.Release()
	}
	c.priorities = nil
	return nil
}

// room is reserved memory of a window.
type room struct {
	*budget.Reservation
	releasePrefetched func() bool
}

func (o Options) room(ctx context.Context, what string) (*room, error) {
	r, err := o.Budget.ReserveFor(ctx, what, 0)
	return &room{r, o.ReleasePrefetched}, err
}

// grow reserves more memory. It adds the remedy to the error.
func (r *room) grow(ctx context.Context, bytes int64) error {
	err := r.GrowWait(ctx, bytes)
	if fault.KindOf(err) == fault.Exhausted && r.releasePrefetched != nil && r.releasePrefetched() {
		err = r.GrowWait(ctx, bytes)
	}
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	return fault.As(err).WithRemedy("ask for a smaller shuffle_window, for fewer columns or lanes, or raise the server's memory budget")
}
