// Package shuffle permutes the rows of a run within windows (docs/spec/order.md).
//
// A run has several parts, and a window consists of the next block of each part. The borders of
// blocks are counted in stored training rows, including deleted and filtered rows, so deletes and
// filters do not move them. Each row has a pseudorandom priority that depends on a seed and on its
// number or the key of its request. The rows that pass filters and joins are returned by priority,
// so dropping rows does not change the order of the others.
//
// Rows are permuted in two stages, before and after their join. Before the join, PriorityReader
// splits the batches of a section of a part at the borders of windows, and adds each row's priority
// as a column, which passes through the join. After the join, Windows collects the rows of a window
// from all parts and sorts them. Columns of fixed width are then permuted as a whole, one after the
// other, into the batches of the result. The values of other columns are copied when a batch is
// returned. The memory that Windows holds is reserved.
package shuffle

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/joiner"
)

// Options define how the rows of a run are permuted.
type Options struct {
	// Key holds the positions of the request key among the columns of the training rows:
	// rows with equal keys stay together. nil: each row has its own priority.
	Key []int
	// Whole means that windows must not divide requests: all rows of a request belong to the window
	// of the request's first remaining row. Whole requires a Key.
	Whole bool
	// ReleasePrefetched is called when a window lacks memory. It releases what was prefetched, and
	// reports whether there was anything to release. It may be nil.
	ReleasePrefetched func() bool
	Memory            memory.Allocator
	Budget            *budget.Budget
	Cores             *cores.Cores // copy values; nil: the caller's goroutine copies all of them
}

// PrioritySpec describes a section: consecutive stored rows of a split, which belong to one part of
// a run. From and To are numbers of rows in the split.
type PrioritySpec struct {
	From, To int64
	Seed     uint64 // the seed of the priorities
	Windows  SectionWindows
	// EnterWindow is called with the number of each window that has rows of the section. At the
	// time of the call, the join has processed all rows of the section before the window, and has
	// not received the section's first row in the window.
	EnterWindow func(window int64)
	// Before returns the last row that passes deletes, filters and sample, and is before all rows
	// that PriorityReader receives. It is called only if there is a Key and PriorityReader receives
	// no row before the section.
	Before func(ctx context.Context) (StoredRow, error)
}

// SectionWindows reports which rows are in which windows of a section's run.
type SectionWindows interface {
	// Window returns the window of a row of the section.
	Window(row int64) int64
	// Last returns the section's last row in a window.
	Last(window int64) int64
	// Other returns the window of a row of the split that is not in the section, or -1 if the row
	// is in another run.
	Other(row int64) int64
}

// StoredRow is a training row, identified by its number in its split, with its priority. In the
// zero value, Found is false and there is no row.
type StoredRow struct {
	Row      int64
	Priority uint64
	Found    bool
}

// Names of the columns that pass through the join.
const priorityName = "priority"

// PriorityReader returns the training rows of a section, with their priorities as one more column
// at the end. The last column of the rows that it reads must be the number of each row among the
// stored rows of its split. No batch has rows of two windows. It is not safe for concurrent use.
type PriorityReader struct {
	array.RecordReader
	options Options
	section PrioritySpec
	rows    array.RecordReader
	keys    *joiner.KeyReader // nil without Key

	held       *budget.Reservation // for the priorities of the current batch
	priorities []uint64            // the priorities of the current batch of rows
	used       int                 // how many rows of the current batch were returned or skipped
	last       StoredRow           // the last row that was returned or skipped
	window     int64               // the window of the last row that was returned; -1 before the first row
	divided    int64
	skipped    int64
}

// New returns a reader of the training rows of a section, and takes ownership of rows. rows
// contains the section's rows, perhaps after other rows of the split, which are skipped.
func New(ctx context.Context, rows array.RecordReader, section PrioritySpec, options Options) (*PriorityReader, error) {
	t := &PriorityReader{options: options, section: section, rows: rows, window: -1}
	if len(options.Key) > 0 {
		var err error
		if t.keys, err = joiner.NewKeyReader(rows.Schema(), options.Key, nil); err != nil {
			rows.Release()
			return nil, err
		}
	}
	fields := append(rows.Schema().Fields(), arrow.Field{Name: priorityName, Type: arrow.PrimitiveTypes.Uint64})
	t.RecordReader = batch.FromFuncContext(ctx, arrow.NewSchema(fields, nil), t.next, t.release)
	return t, nil
}

// Divided returns how many times windows or runs have divided a request so far: how often a row was
// in another window or run than the previous remaining row of the split, although both belong to
// the same request.
func (t *PriorityReader) Divided() int64 { return t.divided }

// Skipped returns the number of rows before the section that were skipped.
func (t *PriorityReader) Skipped() int64 { return t.skipped }

func (t *PriorityReader) release() {
	t.rows.Release()
	if t.held != nil {
		t.held.Release()
	}
}

// next returns the following rows of the current batch that belong to one window.
func (t *PriorityReader) next(ctx context.Context) (arrow.RecordBatch, error) {
	for t.used == len(t.priorities) {
		if !t.rows.Next() {
			return nil, t.rows.Err()
		}
		if err := t.begin(ctx, t.rows.RecordBatch()); err != nil {
			return nil, err
		}
	}
	b := t.rows.RecordBatch()
	ordinals := ordinalsOf(b)
	if err := t.enter(ctx, ordinals[t.used], t.priorities[t.used]); err != nil {
		return nil, err
	}
	to := t.used + 1
	for to < len(ordinals) && (ordinals[to] <= t.section.Windows.Last(t.window) || t.continues(t.priorities[to-1], t.priorities[to])) {
		to++
	}
	t.last = StoredRow{Row: ordinals[to-1], Priority: t.priorities[to-1], Found: true}
	part := b.NewSlice(int64(t.used), int64(to))
	defer part.Release()
	bytes := arrow.Uint64Traits.CastToBytes(t.priorities[t.used:to])
	data := array.NewData(arrow.PrimitiveTypes.Uint64, to-t.used, []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}, nil, 0, 0)
	defer data.Release()
	priorities := array.NewUint64Data(data)
	defer priorities.Release()
	columns := append(append([]arrow.Array{}, part.Columns()...), priorities)
	if last := t.section.Windows.Last(t.window); t.last.Row > last {
		within := limited(ordinals[t.used:to], last)
		defer within.Release()
		columns[len(columns)-2] = within
	}
	t.used = to
	return array.NewRecordBatch(t.Schema(), columns, part.NumRows()), nil
}

// continues reports whether a row belongs to the window of the row before it because both rows
// belong to one request, given the priorities of both rows.
func (t *PriorityReader) continues(before, priority uint64) bool {
	return t.options.Whole && before == priority
}

// limited returns numbers of rows, with numbers above last replaced by last. So if rows belong to a
// window although they are stored after it, they still count as rows of the window after the join.
func limited(ordinals []int64, last int64) arrow.Array {
	moved := make([]int64, len(ordinals))
	for i, ordinal := range ordinals {
		moved[i] = min(ordinal, last)
	}
	data := array.NewData(arrow.PrimitiveTypes.Int64, len(moved), []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(moved))}, nil, 0, 0)
	defer data.Release()
	return array.NewInt64Data(data)
}

// enter enters the window of the row that is returned next.
func (t *PriorityReader) enter(ctx context.Context, row int64, priority uint64) error {
	if t.window >= 0 && t.continues(t.last.Priority, priority) {
		return nil
	}
	window := t.section.Windows.Window(row)
	if window == t.window {
		return nil
	}
	if t.section.EnterWindow != nil {
		t.section.EnterWindow(window)
	}
	if t.keys != nil && !t.options.Whole {
		if err := t.countDivided(ctx, window, priority); err != nil {
			return err
		}
	}
	t.window = window
	return nil
}

// countDivided counts whether the first row of a window divides a request.
func (t *PriorityReader) countDivided(ctx context.Context, window int64, priority uint64) error {
	before := t.last
	if !before.Found {
		var err error
		if before, err = t.section.Before(ctx); err != nil {
			return err
		}
	}
	if !before.Found || before.Priority != priority {
		return nil
	}
	of := t.window
	if before.Row < t.section.From {
		of = t.section.Windows.Other(before.Row)
	}
	if of != window {
		t.divided++
	}
	return nil
}

// begin computes the priorities of a batch, and skips the rows before the section.
func (t *PriorityReader) begin(ctx context.Context, b arrow.RecordBatch) error {
	if err := t.reserve(ctx, b.NumRows()); err != nil {
		return err
	}
	ordinals := ordinalsOf(b)
	t.priorities, t.used = make([]uint64, len(ordinals)), 0 // a new slice, since the earlier priorities may be retained
	priorities(t.keys, b, ordinals, t.section.Seed, t.priorities)
	for t.window < 0 && t.used < len(ordinals) && ordinals[t.used] < t.section.From {
		t.last = StoredRow{Row: ordinals[t.used], Priority: t.priorities[t.used], Found: true}
		t.used++
		t.skipped++
	}
	return nil
}

// priorities computes the priorities of the rows of a batch. If keys is not nil, these are the
// priorities of the rows' requests.
func priorities(keys *joiner.KeyReader, b arrow.RecordBatch, ordinals []int64, seed uint64, to []uint64) {
	alone := func(row int) uint64 { return draw(seed, ordinals[row]) }
	if keys == nil {
		for i := range to {
			to[i] = alone(i)
		}
	} else if len(ordinals) > 0 {
		keys.Read(b).Priorities(seed, to, alone)
	}
}

// reserve reserves the priorities of the current batch.
func (t *PriorityReader) reserve(ctx context.Context, rows int64) error {
	bytes := rows * int64(arrow.Uint64SizeBytes)
	if t.options.Whole {
		bytes *= 2 // for the numbers of rows too, see limited
	}
	if t.held == nil {
		var err error
		t.held, err = t.options.Budget.ReserveFor(ctx, "the priorities of shuffled rows", bytes)
		return err
	}
	if more := bytes - t.held.Held(); more > 0 {
		return t.held.GrowWait(ctx, more)
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
