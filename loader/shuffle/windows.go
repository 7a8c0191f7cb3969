package shuffle

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// JoinedColumns describes the joined rows: the positions of the columns that Training added,
// which are null in the batches of Windows.
type JoinedColumns struct {
	Ordinal, Priority int // columns
	// Requests, if not nil, is a column that refers to the rows of its own batch of
	// training rows, which the join does not reserve beyond that batch.
	Requests *int
	// Begins is called with the number of each window before its first row is returned.
	Begins func(window int64)
	// Skip is the number of rows of window Options.Start to skip.
	Skip int64
	// BatchRows is the maximum number of rows of a batch, at least 1.
	BatchRows int
}

// refersToItself reports whether a column refers to the rows of its own batch.
func (j JoinedColumns) refersToItself(column int) bool {
	return j.Requests != nil && *j.Requests == column
}

// Windows returns the rows of a range window by window, and those of a window by
// priority. No batch has rows of two windows.
type Windows struct {
	array.RecordReader
	shuffle *Shuffle
	ctx     context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	joined  JoinedColumns
	rows    array.RecordReader
	pending bool // rows has a batch that was not collected
	ended   bool

	number  int64
	window  *collected // the current one; nil before the first, and at the end
	held    *room      // reserves the window
	batches []int32    // of the remaining rows, in order: the batch of each in the window,
	numbers []int32    // and its number there
	out     *room      // reserves the current batch
}

// Windows takes ownership of joined rows, which are those of Training after joins and
// filters. It is Invalid if window Options.Start has fewer rows than joined.Skip.
func (s *Shuffle) Windows(ctx context.Context, rows array.RecordReader, joined JoinedColumns) (*Windows, error) {
	w := &Windows{shuffle: s, ctx: ctx, joined: joined, rows: rows}
	var err error
	if w.held, err = s.room(ctx, "a shuffle window"); err == nil {
		w.out, err = s.room(ctx, "rows of a shuffle window")
	}
	if err != nil {
		rows.Release()
		return nil, err
	}
	fields := rows.Schema().Fields()
	for _, i := range []int{joined.Ordinal, joined.Priority} {
		fields[i] = arrow.Field{Name: fields[i].Name, Type: arrow.Null, Nullable: true}
	}
	w.RecordReader = batch.FromFunc(arrow.NewSchema(fields, nil), w.next, w.release)
	return w, nil
}

// Window returns the number of the window of the current batch's rows.
func (w *Windows) Window() int64 { return w.number }

func (w *Windows) release() {
	w.releaseWindow()
	w.rows.Release()
	w.out.Release()
}

// releaseWindow releases the current window.
func (w *Windows) releaseWindow() {
	if w.window != nil {
		w.window.release()
		w.window = nil
	}
	w.held.Shrink(w.held.Held())
}

// next returns the next rows.
func (w *Windows) next() (arrow.RecordBatch, error) {
	w.out.Shrink(w.out.Held()) // the consumer has the previous batch
	for len(w.numbers) == 0 {
		w.releaseWindow()
		if more, err := w.begin(); !more || err != nil {
			return nil, err
		}
	}
	n := min(w.joined.BatchRows, len(w.numbers))
	b, err := w.window.choose(w.ctx, w.Schema(), w.out, w.batches[:n], w.numbers[:n])
	w.batches, w.numbers = w.batches[n:], w.numbers[n:]
	return b, err
}

// begin collects and sorts the next window. It reports whether there is one.
func (w *Windows) begin() (bool, error) {
	c, err := w.collect()
	if err != nil {
		return false, err
	}
	w.window = c
	skip, rows := w.joined.Skip, int64(0)
	w.joined.Skip = 0
	if c != nil && w.number == w.shuffle.options.Start {
		rows = c.rows
	}
	if skip > rows {
		return false, fault.InvalidField("cursor.at", "window %d has %d rows, but the cursor is at row %d", w.shuffle.options.Start, rows, skip).
			WithRemedy("resume with an unchanged cursor of this table and server version")
	}
	if c == nil {
		return false, nil
	}
	if err := w.sort(); err != nil {
		return false, err
	}
	w.batches, w.numbers = w.batches[skip:], w.numbers[skip:]
	return true, c.mergeDictionaries(w.ctx, w.held)
}

// collect reads the rows of the next window; nil at the end.
func (w *Windows) collect() (*collected, error) {
	if w.ended || !w.pending && !w.pull() {
		return nil, w.rows.Err()
	}
	w.number = w.windowOf(w.rows.RecordBatch())
	if w.joined.Begins != nil {
		w.joined.Begins(w.number)
	}
	c := &collected{joined: w.joined, memory: w.shuffle.options.Memory, kept: batch.Retained{}}
	for more := true; more; {
		err := c.add(w.ctx, w.held, w.rows.RecordBatch())
		if w.pending = false; err == nil {
			more, err = w.pull(), w.rows.Err()
		}
		if err != nil {
			c.release()
			return nil, err
		}
		more = more && w.windowOf(w.rows.RecordBatch()) == w.number
	}
	return c, nil
}

// pull moves to the next joined batch that has rows.
func (w *Windows) pull() bool {
	for w.rows.Next() {
		if w.rows.RecordBatch().NumRows() > 0 {
			w.pending = true
			return true
		}
	}
	w.ended = true
	return false
}

func (w *Windows) windowOf(b arrow.RecordBatch) int64 {
	return w.shuffle.options.window(b.Column(w.joined.Ordinal).(*array.Int64).Value(0))
}

// sort sorts the rows of the window.
func (w *Windows) sort() error {
	c := w.window
	if err := w.held.grow(w.ctx, c.rows*bytesOfSorting); err != nil {
		return err
	}
	priorities := make([][]uint64, len(c.priorities))
	for i, part := range c.priorities {
		priorities[i] = part.(*array.Uint64).Uint64Values()
	}
	w.batches, w.numbers = sortRows(priorities)
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

func (s *Shuffle) room(ctx context.Context, what string) (*room, error) {
	r, err := s.options.Budget.ReserveFor(ctx, what, 0)
	return &room{r, s.options.ReleasePrefetched}, err
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
