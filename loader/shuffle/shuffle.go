// Package shuffle permutes the rows of a range within windows (docs/spec/order.md).
//
// A window is a fixed number of consecutive training rows in stored order, counted from
// the range's first row, including deleted and filtered rows: its borders depend on
// nothing else. Each row has a pseudorandom priority that depends on a seed and on its
// number or the key of its request. The rows that pass filters and joins are returned by
// priority, so dropping rows does not change the order of the others.
//
// A Shuffle has two stages, before and after a range's join. Before it, Training splits
// batches at the borders of windows and adds each row's priority as a column, which
// passes through the join. After it, Windows collects the rows of a window and sorts
// them: values are copied once, when a batch of the result is made. What it collects is
// reserved.
package shuffle

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner"
)

// Options define how the rows of a range are permuted.
type Options struct {
	Rows  int64  // of a window
	First int64  // number of the range's first row among the stored rows of its split
	Start int64  // first window to return; rows before it are skipped
	Seed  uint64 // of the priorities
	// Key holds the positions of the request key among the columns of the training rows:
	// rows with equal keys stay together. nil: each row has its own priority.
	Key []int
	// Whole reports that no window divides a request: rows after the window of a
	// request's first remaining row belong to that window, too. Reading must begin with
	// all rows of the window before Start, since its last request may continue in Start. It
	// requires a Key.
	Whole bool
	// EnterWindow is called with the number of each window before the join gets its first row,
	// and after the join has processed all rows before it.
	EnterWindow func(window int64)
	// ReleasePrefetched is called when a window lacks memory. It releases what was prefetched, and
	// reports whether there was anything to release. It may be nil.
	ReleasePrefetched func() bool
	Memory            memory.Allocator
	Budget            *budget.Budget
}

// Shuffle permutes one range. It is not safe for concurrent use.
type Shuffle struct {
	options Options
	keys    *joiner.KeyReader // nil without Key
	divided int64
	left    int64 // training rows before the start
}

// New returns the shuffle of a range, given the schema of its training rows.
func New(schema *arrow.Schema, options Options) (*Shuffle, error) {
	s := &Shuffle{options: options}
	var err error
	if len(options.Key) > 0 {
		s.keys, err = joiner.NewKeyReader(schema, options.Key, nil)
	}
	return s, err
}

// DividedRequests returns the number of windows so far that begin within a request: the row
// stored before the window is of the same request as the window's first row.
func (s *Shuffle) DividedRequests() int64 { return s.divided }

// SkippedRows returns the number of training rows that were skipped before the start.
func (s *Shuffle) SkippedRows() int64 { return s.left }

// Names of the columns that pass through the join.
const (
	ordinalName  = "ordinal"
	priorityName = "priority"
)

// Training returns the training rows with their priorities as the last column; the last
// column of rows is their number among the stored rows of their split. No batch has rows
// of two windows. It takes ownership of rows.
func (s *Shuffle) Training(ctx context.Context, rows array.RecordReader) array.RecordReader {
	t := &training{shuffle: s, ctx: ctx, rows: rows, window: -1, last: stored{ordinal: -1}}
	fields := append(rows.Schema().Fields(), arrow.Field{Name: priorityName, Type: arrow.PrimitiveTypes.Uint64})
	t.schema = arrow.NewSchema(fields, nil)
	return batch.FromFunc(t.schema, t.next, t.release)
}

type training struct {
	shuffle    *Shuffle
	ctx        context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	rows       array.RecordReader
	schema     *arrow.Schema
	held       *budget.Reservation // for the priorities of the current batch
	priorities []uint64            // of the current batch of rows
	used       int                 // rows of it that were returned
	window     int64               // of the last row returned; -1 before the first
	last       stored              // row returned or skipped
}

// stored is a row, by its number among those of its split; -1 is none.
type stored struct {
	ordinal  int64
	priority uint64
	window   int64 // to which it belongs
}

func (t *training) release() {
	t.rows.Release()
	if t.held != nil {
		t.held.Release()
	}
}

// next returns the following rows of the current batch that are of one window.
func (t *training) next() (arrow.RecordBatch, error) {
	for t.used == len(t.priorities) {
		if !t.rows.Next() {
			return nil, t.rows.Err()
		}
		if err := t.begin(t.rows.RecordBatch()); err != nil {
			return nil, err
		}
	}
	b, o := t.rows.RecordBatch(), t.shuffle.options
	ordinals := ordinalsOf(b)
	first := t.place(ordinals[t.used], t.priorities[t.used])
	if first.window != t.window {
		t.cross(first)
	}
	t.last = first
	to := t.used + 1
	for ; to < len(ordinals); to++ {
		row := t.place(ordinals[to], t.priorities[to])
		if row.window != first.window {
			break
		}
		t.last = row
	}
	part := b.NewSlice(int64(t.used), int64(to))
	defer part.Release()
	bytes := arrow.Uint64Traits.CastToBytes(t.priorities[t.used:to])
	data := array.NewData(arrow.PrimitiveTypes.Uint64, to-t.used, []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0)
	defer data.Release()
	priorities := array.NewUint64Data(data)
	defer priorities.Release()
	columns := append(append([]arrow.Array{}, part.Columns()...), priorities)
	if o.window(t.last.ordinal) != t.last.window {
		within := o.within(ordinals[t.used:to], t.last.window)
		defer within.Release()
		columns[len(columns)-2] = within
	}
	t.used = to
	return array.NewRecordBatch(t.schema, columns, part.NumRows()), nil
}

// window returns the number of the window in which a row is stored; -1 for a row before
// the range.
func (o Options) window(ordinal int64) int64 {
	if ordinal < o.First {
		return -1
	}
	return (ordinal - o.First) / o.Rows
}

// within returns numbers of rows of a window, limited to the window's last number, so
// that rows stored after the window belong to it after the join as well.
func (o Options) within(ordinals []int64, window int64) arrow.Array {
	last := o.First + (window+1)*o.Rows - 1
	moved := make([]int64, len(ordinals))
	for i, ordinal := range ordinals {
		moved[i] = min(ordinal, last)
	}
	data := array.NewData(arrow.PrimitiveTypes.Int64, len(moved), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(moved))}, nil, 0, 0)
	defer data.Release()
	return array.NewInt64Data(data)
}

// place returns the next row with its window: the one in which it is stored, or that of
// the row before if both are of one request. The row before must be stored in the same
// or the previous window, so that reading from a window on requires only the one before
// it.
func (t *training) place(ordinal int64, priority uint64) stored {
	o, before := t.shuffle.options, t.last
	row := stored{ordinal, priority, o.window(ordinal)}
	if o.Whole && before.ordinal >= 0 && before.priority == priority && row.window <= o.window(before.ordinal)+1 {
		row.window = before.window
	}
	return row
}

// cross starts the window of its first remaining row.
func (t *training) cross(first stored) {
	s := t.shuffle
	if s.options.EnterWindow != nil {
		s.options.EnterWindow(first.window)
	}
	t.window = first.window
	before := s.options.First + first.window*s.options.Rows - 1
	if s.keys != nil && t.last.ordinal >= 0 && t.last.ordinal == before && t.last.priority == first.priority {
		s.divided++
	}
}

// begin computes the priorities of a batch, and skips the rows before the start.
func (t *training) begin(b arrow.RecordBatch) error {
	s := t.shuffle
	if err := t.reserve(b.NumRows()); err != nil {
		return err
	}
	ordinals := ordinalsOf(b)
	t.priorities, t.used = make([]uint64, len(ordinals)), 0 // earlier ones may be retained
	alone := func(row int) uint64 { return draw(s.options.Seed, ordinals[row]) }
	if s.keys == nil {
		for i := range t.priorities {
			t.priorities[i] = alone(i)
		}
	} else if len(ordinals) > 0 {
		s.keys.Read(b).Priorities(s.options.Seed, t.priorities, alone)
	}
	for t.window < 0 && t.used < len(ordinals) {
		row := t.place(ordinals[t.used], t.priorities[t.used])
		if row.window >= s.options.Start {
			break
		}
		t.last = row
		t.used++
		s.left++
	}
	return nil
}

// reserve reserves the priorities of the current batch.
func (t *training) reserve(rows int64) error {
	bytes := rows * int64(arrow.Uint64SizeBytes)
	if t.shuffle.options.Whole {
		bytes *= 2 // and numbers of rows, see within
	}
	if t.held == nil {
		var err error
		t.held, err = t.shuffle.options.Budget.ReserveFor(t.ctx, "the priorities of shuffled rows", bytes)
		return err
	}
	if more := bytes - t.held.Held(); more > 0 {
		return t.held.GrowWait(t.ctx, more)
	}
	return nil
}

// ordinalsOf returns the last column of training rows.
func ordinalsOf(b arrow.RecordBatch) []int64 {
	return b.Column(int(b.NumCols()) - 1).(*array.Int64).Int64Values()
}

// draw returns the priority of a row by its number: splitmix64 (Steele, Lea, Flood: Fast
// splittable pseudorandom number generators, 2014), started at the seed.
func draw(seed uint64, ordinal int64) uint64 {
	v := seed + uint64(ordinal+1)*0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
