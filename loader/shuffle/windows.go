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

// JoinedColumns describes the joined rows, and how Windows returns them. It has the positions of
// the columns that PriorityReader uses; these columns are null in the batches of Windows.
type JoinedColumns struct {
	Ordinal, Priority int // columns
	// Requests, if not nil, is the position of a column that refers to rows of the same batch of
	// training rows. The join reserves those rows only until its next batch.
	Requests *int
	// Begins is called with the number of each window before the rows of the window are collected.
	// At that time, the rows of all windows before it have been returned.
	Begins func(window int64)
	// Ended is called when all rows have been collected. If it returns an error, Windows fails with
	// that error. Closed is called after all parts were released. Both may be nil.
	Ended  func() error
	Closed func()
	// Start is the first window to return. Skip is the number of rows of that window to skip.
	Start, Skip int64
	// BatchRows is the maximum number of rows of a batch, at least 1.
	BatchRows int
}

// refersToItself reports whether a column refers to rows of the same batch.
func (j JoinedColumns) refersToItself(column int) bool {
	return j.Requests != nil && *j.Requests == column
}

// PartRows reads the joined rows of one part of a run, in the part's order. These are the rows that
// PriorityReader returned, after joins and filters. No batch has rows of two windows.
type PartRows interface {
	array.RecordReader
	Window() int64      // the window of the current batch
	Place() StoredPlace // the place of the current batch's first row
}

// StoredPlace is the place of a row in the stored order of its run.
type StoredPlace struct {
	Range int   // the row's range, numbered in the stored order of the run's ranges
	Row   int64 // number in the split
}

// compare compares places by the stored order.
func (p StoredPlace) compare(o StoredPlace) int {
	return cmp.Or(cmp.Compare(p.Range, o.Range), cmp.Compare(p.Row, o.Row))
}

// Windows returns the rows of a run, window by window. The rows of each window are in the order of
// their priorities. No batch has rows of two windows.
type Windows struct {
	array.RecordReader
	options Options
	joined  JoinedColumns
	parts   []*pendingPart

	number  int64
	window  *collected    // the current window; nil before the first window and at the end
	held    *room         // the reserved memory of the window
	left    order         // the order of the rows that were not returned yet
	outputs []arrow.Array // of the current batch
	out     *room         // the reserved memory of the other columns of the current batch
}

// pendingPart is a part of the run. If it has a current batch, the batch was not collected yet.
type pendingPart struct {
	PartRows
	pending bool
	ended   bool
}

// NewWindows returns the rows of the parts of a run, and takes ownership of the parts. There must
// be at least one part. The result fails as Invalid if window joined.Start has fewer rows than
// joined.Skip.
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

// next returns the next batch.
func (w *Windows) next(ctx context.Context) (arrow.RecordBatch, error) {
	w.out.Shrink(w.out.Held()) // the previous batch now belongs to the consumer
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

// collect reads the rows of the next window. It returns nil at the end of the run.
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
	c := &collected{joined: w.joined, memory: w.options.Memory, cores: w.options.Cores, kept: batch.Retained{}}
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

// pull moves to the next joined batch that has rows, unless there is a pending batch.
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

// sort determines the order of the window's rows.
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

// room is memory that is reserved for a window.
type room struct {
	*budget.Reservation
	releasePrefetched func() bool
}

func (o Options) room(ctx context.Context, what string) (*room, error) {
	r, err := o.Budget.ReserveFor(ctx, what, 0)
	return &room{r, o.ReleasePrefetched}, err
}

// grow reserves more memory. If that fails, it adds the remedy to the error.
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
