// Package shuffle permutes the rows of a range within windows (docs/spec/order.md).
//
// A window is so many consecutive training rows as they are stored, counted from the
// range's first, deleted and filtered rows included: its borders depend on nothing else.
// Each row has a priority, drawn by a seed from its number or from the key of its
// request, and the rows that are left after filters and joins come by priority. So
// dropping rows leaves the order of the others alone.
//
// A Shuffle stands on both sides of a range's join. Before it, Training cuts batches at
// the borders of windows and gives each row its priority, which rides through the join
// as a column. Behind it, Windows collects the rows of a window and says in which order
// they come: no value is moved, save that a window is put into one batch. What it
// collects it has reserved.
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

// Options say how the rows of a range are permuted.
type Options struct {
	Rows  int64  // of a window
	First int64  // number, among the stored rows of its split, of the range's first row
	Start int64  // window that reading starts with; what is read before it is left out
	Seed  uint64 // of the rows' priorities
	// Key are the positions of the request key among the columns of the training rows:
	// rows with equal keys stay together. nil: each row has a priority of its own.
	Key []int
	// Whole says that no window divides a request, which goes on into the rows behind the
	// window of its first row that is left. Reading must begin with all rows of the window
	// before Start, which say whether a request goes on into it. It needs a Key.
	Whole bool
	// Crossed is told of each window before the join gets the first of its rows, when it
	// is done with all rows before.
	Crossed func(window int64)
	// GiveWay is asked, where a window lacks memory, to give up what is done ahead of it,
	// and says whether there was something. nil: there is nothing.
	GiveWay func() bool
	Memory  memory.Allocator
	Budget  *budget.Budget
}

// Shuffle permutes one range. It is not safe for concurrent use.
type Shuffle struct {
	options Options
	keys    *joiner.KeyReader // nil without Key
	divided int64
	left    int64 // training rows before the start
}

// New makes the shuffle of a range. schema is that of its training rows.
func New(schema *arrow.Schema, options Options) (*Shuffle, error) {
	s := &Shuffle{options: options}
	var err error
	if len(options.Key) > 0 {
		s.keys, err = joiner.NewKeyReader(schema, options.Key, nil)
	}
	return s, err
}

// Divided returns how many windows began within a request, as far as the join got rows:
// the row stored before the window has the same request as its first one.
func (s *Shuffle) Divided() int64 { return s.divided }

// Left returns how many training rows were left out, since they stand before the start.
func (s *Shuffle) Left() int64 { return s.left }

// Names of the columns that ride through the join.
const (
	ordinalName  = "ordinal"
	priorityName = "priority"
)

// Training returns the training rows with their priorities in a column behind the
// others, whose last one is their number among the stored rows of their split. No batch
// has rows of two windows. It takes rows over.
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
	held       *budget.Reservation // for the priorities of the batch at hand
	priorities []uint64            // of the batch of rows
	used       int                 // rows of it that were given
	window     int64               // of the last row that was given; -1 before the first
	last       stored              // row that was given or left out
}

// stored is a row, by its number among those of its split; -1 if there is none.
type stored struct {
	ordinal  int64
	priority uint64
	window   int64 // that it is in
}

func (t *training) release() {
	t.rows.Release()
	if t.held != nil {
		t.held.Release()
	}
}

// next returns the rest of the batch at hand, as far as it is of one window.
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

// window returns the number of the window in which a row is stored; -1 for one before the
// range.
func (o Options) window(ordinal int64) int64 {
	if ordinal < o.First {
		return -1
	}
	return (ordinal - o.First) / o.Rows
}

// within returns numbers of rows of a window, those of rows that are stored behind it as
// if they were its last one: so they are of it behind the join too.
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

// place says which window the next row is in: the one where it is stored, or that of the
// row before, if it goes on with its request. That must be stored in a window beside it,
// so that whoever begins with a window need not read more than the one before.
func (t *training) place(ordinal int64, priority uint64) stored {
	o, before := t.shuffle.options, t.last
	row := stored{ordinal, priority, o.window(ordinal)}
	if o.Whole && before.ordinal >= 0 && before.priority == priority && row.window <= o.window(before.ordinal)+1 {
		row.window = before.window
	}
	return row
}

// cross goes on to a window whose first row that is left is given.
func (t *training) cross(first stored) {
	s := t.shuffle
	if s.options.Crossed != nil {
		s.options.Crossed(first.window)
	}
	t.window = first.window
	before := s.options.First + first.window*s.options.Rows - 1
	if s.keys != nil && t.last.ordinal >= 0 && t.last.ordinal == before && t.last.priority == first.priority {
		s.divided++
	}
}

// begin draws the priorities of a batch, and leaves out the rows before the start.
func (t *training) begin(b arrow.RecordBatch) error {
	s := t.shuffle
	if err := t.pay(b.NumRows()); err != nil {
		return err
	}
	ordinals := ordinalsOf(b)
	t.priorities, t.used = make([]uint64, len(ordinals)), 0 // earlier ones may be kept
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

// pay pays for the priorities of the batch at hand.
func (t *training) pay(rows int64) error {
	bytes := rows * int64(arrow.Uint64SizeBytes)
	if t.shuffle.options.Whole {
		bytes *= 2 // numbers of rows too, see within
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

// draw is the priority of a row by its number: splitmix64 (Steele, Lea, Flood: Fast
// splittable pseudorandom number generators, 2014) at a place that the seed begins.
func draw(seed uint64, ordinal int64) uint64 {
	v := seed + uint64(ordinal+1)*0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
