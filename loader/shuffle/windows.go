package shuffle

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Joined is where the columns that Training added lie behind the join. They are nulls
// in the batches of Windows.
type Joined struct {
	Ordinal, Priority int // columns
	// Begins is told of each window before its first row is given, when that was pulled
	// of the join, and nothing behind it.
	Begins func(window int64)
}

// Windows gives the rows of a range window by window. A batch has all of a window's
// rows, as they are stored; Window says in which order they are to be given.
type Windows struct {
	array.RecordReader
	shuffle *Shuffle
	ctx     context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	joined  Joined
	rows    array.RecordReader
	held    *budget.Reservation // pays for the window, or for what is collected of it
	skip    int64               // rows of window Options.Start that were given before

	number  int64
	order   []int32
	pending bool // rows has a batch that was not collected
	ended   bool
}

// Windows collects joined rows, those of Training joined and filtered, which it takes
// over. The first skip rows of window Options.Start were given before; a window that
// has fewer is Corrupt.
func (s *Shuffle) Windows(ctx context.Context, rows array.RecordReader, joined Joined, skip int64) *Windows {
	w := &Windows{shuffle: s, ctx: ctx, joined: joined, rows: rows, skip: skip}
	fields := rows.Schema().Fields()
	for _, i := range []int{joined.Ordinal, joined.Priority} {
		fields[i] = arrow.Field{Name: fields[i].Name, Type: arrow.Null, Nullable: true}
	}
	w.RecordReader = batch.FromFunc(arrow.NewSchema(fields, nil), w.next, w.release)
	return w
}

// Window returns the number of the window at hand, and the rows of its batch in the
// order in which they come. It is valid as long as the batch.
func (w *Windows) Window() (number int64, order []int32) { return w.number, w.order }

func (w *Windows) release() {
	w.rows.Release()
	if w.held != nil {
		w.held.Release()
	}
}

// next returns the next window with rows that were not given.
func (w *Windows) next() (arrow.RecordBatch, error) {
	if w.held != nil {
		w.held.Release()
	}
	w.order = nil
	for {
		c, err := w.collect()
		if err != nil || c == nil {
			return nil, err
		}
		out, err := w.permuted(c)
		c.release()
		if out != nil || err != nil {
			return out, err
		}
	}
}

// permuted makes a window of what was collected, and nothing if all of its rows were
// given before.
func (w *Windows) permuted(c *collected) (arrow.RecordBatch, error) {
	skip := int64(0)
	if w.number == w.shuffle.options.Start {
		skip = w.skip
	}
	if skip > c.rows {
		return nil, fault.New(fault.Corrupt, "window %d has %d rows, of which %d were given before", w.number, c.rows, skip).
			WithRemedy("resume with a cursor of this very table and server version, as it came")
	}
	order, err := w.sorted(c)
	if err != nil || skip == c.rows {
		return nil, err
	}
	out, err := c.batch(w.ctx, w.Schema(), w.held)
	if err != nil {
		return nil, err
	}
	w.order = order[skip:]
	return out, nil
}

// collect pulls the rows of the next window; nil at the end.
func (w *Windows) collect() (*collected, error) {
	if w.ended || !w.pending && !w.pull() {
		return nil, w.rows.Err()
	}
	if err := w.reserve(); err != nil {
		return nil, err
	}
	w.number = w.windowOf(w.rows.RecordBatch())
	if w.joined.Begins != nil {
		w.joined.Begins(w.number)
	}
	c := &collected{joined: w.joined, memory: w.shuffle.options.Memory, kept: batch.Retained{}}
	for {
		if err := c.add(w.ctx, w.held, w.rows.RecordBatch()); err != nil {
			c.release()
			return nil, err
		}
		w.pending = false
		if !w.pull() {
			if err := w.rows.Err(); err != nil {
				c.release()
				return nil, err
			}
			return c, nil
		}
		if w.windowOf(w.rows.RecordBatch()) != w.number {
			return c, nil
		}
	}
}

// pull goes on to the next joined batch that has rows.
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
	o := w.shuffle.options
	return (b.Column(w.joined.Ordinal).(*array.Int64).Value(0) - o.First) / o.Rows
}

// reserve opens the reservation of a window.
func (w *Windows) reserve() (err error) {
	w.held, err = w.shuffle.options.Budget.ReserveFor(w.ctx, "a shuffle window", 0)
	return err
}

// sorted returns the rows of a window by priority, and counts the requests that were
// divided before it.
func (w *Windows) sorted(c *collected) ([]int32, error) {
	if err := grow(w.ctx, w.held, c.rows*bytesOfSorting); err != nil {
		return nil, err
	}
	priorities := make([]uint64, 0, c.rows)
	for _, part := range c.priorities {
		priorities = append(priorities, part.(*array.Uint64).Uint64Values()...)
	}
	order := sortRows(priorities)
	if w.shuffle.keys != nil {
		w.shuffle.count(priorities, order)
	}
	w.held.Shrink(c.kept.Remove(c.priorities))
	w.held.Shrink(c.rows * (bytesOfSorting - int64(arrow.Int32SizeBytes)))
	return order, nil
}

// count counts the requests of a window that had rows in the window before.
func (s *Shuffle) count(priorities []uint64, order []int32) {
	var here []uint64
	before := s.last
	for i, row := range order {
		p := priorities[row]
		if i > 0 && p == here[len(here)-1] {
			continue
		}
		here = append(here, p)
		for len(before) > 0 && before[0] < p {
			before = before[1:]
		}
		if len(before) > 0 && before[0] == p {
			s.divided++
		}
	}
	s.last = here
}

// grow reserves more of a window, and says what helps where there is no room.
func grow(ctx context.Context, held *budget.Reservation, bytes int64) error {
	err := held.GrowWait(ctx, bytes)
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	return fault.As(err).WithRemedy("ask for a smaller shuffle_window, for fewer columns or lanes, or raise the server's memory budget")
}
