package joiner

import (
	"context"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// replay answers a join from its notes: for each training row the next answer
// of its slice. Dictionaries hold the staging rows that the current batch
// refers to.
type replay struct {
	ctx    context.Context //nolint:containedctx // of the join that asks, whose calls take none
	notes  *notes
	held   *budget.Reservation
	slices []replaySlice

	// Of the batch last asked about, by row.
	of     []int32 // its slice, or -1
	checks []int32
	starts []int32
	counts []int32

	wanted     []wanted // scratch of gather
	dictionary *array.Struct
	bytes      int64 // reserved for the dictionary
}

// replaySlice is how far the notes of one slice were read.
type replaySlice struct {
	*sliceNotes
	next   int               // of answers.batches
	open   arrow.RecordBatch // the batch of answers that is being read, or nil
	bytes  int64             // reserved for it
	row    int               // of open
	loaded []*loaded         // batches of rows in memory, ascending
}

// loaded is a batch of staging rows in memory.
type loaded struct {
	at    stored
	rows  *array.Struct
	refs  []int32 // by row: its place in picked + 1, or 0
	picks []int32 // the rows that are wanted
	base  int32   // of picks in the dictionary
}

// wanted is a staging row that a row of a batch refers to.
type wanted struct {
	from *loaded // nil: none
	pick int32
}

func newReplay(ctx context.Context, n *notes) (*replay, error) {
	held, err := n.side.opts.Budget.Reserve(n.side.spec.Name, 0)
	if err != nil {
		n.store.Release()
		return nil, err
	}
	r := &replay{ctx: ctx, notes: n, held: held, slices: make([]replaySlice, len(n.slices))}
	for i := range r.slices {
		r.slices[i].sliceNotes = &n.slices[i]
	}
	return r, nil
}

func (r *replay) match(q *question, refs []int32) (answer, error) {
	resize(&r.of, q.rows)
	resize(&r.checks, q.rows)
	resize(&r.starts, q.rows)
	resize(&r.counts, q.rows)
	slice(q.keys, len(r.slices), r.of, r.checks)
	if r.notes.rule.Time != nil {
		without(q.times.null, r.of)
	}
	several := false
	for i, s := range r.of {
		r.starts[i], r.counts[i] = 0, 0
		if s < 0 || len(r.slices[s].answers.batches) == 0 {
			continue
		}
		if err := r.answer(i, &r.slices[s]); err != nil {
			return answer{}, err
		}
		several = several || r.counts[i] > 1
	}
	if several && r.notes.rule.multiplies() {
		// All references are asked for again, in parts that fit in memory.
		copy(refs, r.starts)
		return answer{dictionary: r.notes.side.zero, counts: r.counts}, r.ctx.Err()
	}
	copy(refs, r.starts)
	if err := r.gather(nil, refs); err != nil {
		return answer{}, err
	}
	out := answer{dictionary: r.dictionary}
	if several {
		out.counts = r.counts
	}
	return out, r.ctx.Err()
}

// answer reads the next answer of a slice.
func (r *replay) answer(row int, s *replaySlice) error {
	if s.open == nil || s.row == int(s.open.NumRows()) {
		if err := r.nextAnswers(s); err != nil {
			return err
		}
	}
	value := func(column int) int32 { return s.open.Column(column).(*array.Int32).Value(s.row) }
	if value(2) != r.checks[row] {
		return r.changed()
	}
	r.starts[row], r.counts[row] = value(0), value(1)
	s.row++
	return nil
}

// changed says that training rows did not come as they came before.
func (r *replay) changed() error {
	return fault.New(fault.Internal, "the training rows beside %s came otherwise when they were read again", r.notes.side.spec.Name)
}

func (r *replay) nextAnswers(s *replaySlice) error {
	r.closeAnswers(s)
	if s.next == len(s.answers.batches) {
		return r.changed()
	}
	at := s.answers.batches[s.next]
	if err := r.held.GrowWait(r.ctx, at.bytes); err != nil {
		return err
	}
	b, err := r.notes.store.Read(at.number)
	if err != nil {
		r.held.Shrink(at.bytes)
		return err
	}
	s.open, s.bytes, s.row = b, at.bytes, 0
	s.next++
	return nil
}

func (r *replay) closeAnswers(s *replaySlice) {
	if s.open != nil {
		s.open.Release()
		s.open = nil
		r.held.Shrink(s.bytes)
	}
}

// gather turns starts into references: refs holds, by row, the start of what
// is wanted, or 0, and then its reference into the dictionary, which is made
// anew. rows says which row of the batch each is about; nil: each about itself.
func (r *replay) gather(rows, refs []int32) error {
	places := resize(&r.wanted, len(refs))
	var used []*loaded
	for i, start := range refs {
		places[i] = wanted{}
		if start == 0 {
			continue
		}
		row := i
		if rows != nil {
			row = int(rows[i])
		}
		l, err := r.load(&r.slices[r.of[row]], int64(start)-1)
		if err != nil {
			return err
		}
		at := int64(start) - 1 - l.at.from
		if l.refs[at] == 0 {
			if len(l.picks) == 0 {
				used = append(used, l)
			}
			l.picks = append(l.picks, int32(at))
			l.refs[at] = int32(len(l.picks))
		}
		places[i] = wanted{from: l, pick: l.refs[at]}
	}
	if err := r.make(used); err != nil {
		return err
	}
	for i, w := range places {
		if w.from != nil {
			refs[i] = w.from.base + w.pick
		}
	}
	for _, l := range used {
		for _, at := range l.picks {
			l.refs[at] = 0
		}
		l.picks = l.picks[:0]
	}
	clear(places)
	r.unload()
	return nil
}

// make makes the dictionary: row 0, then the rows that are picked.
func (r *replay) make(used []*loaded) error {
	segments := []batch.Segment{{Values: r.notes.side.zero, Rows: 1}}
	rows, bytes := int32(0), int64(0)
	for _, l := range used {
		l.base = rows
		rows += int32(len(l.picks))
		bytes += l.at.bytes / l.at.rows * int64(len(l.picks))
		segments = append(segments, batch.Segment{Values: l.rows, Indices: l.picks})
	}
	r.drop()
	if err := r.held.GrowWait(r.ctx, bytes); err != nil {
		return err
	}
	r.bytes = bytes
	made, err := batch.Gather(r.notes.side.zero.DataType(), segments, r.notes.side.opts.memory())
	if err != nil {
		return err
	}
	r.dictionary = made.(*array.Struct)
	return nil
}

// drop releases the dictionary.
func (r *replay) drop() {
	if r.dictionary != nil {
		r.dictionary.Release()
		r.dictionary = nil
	}
	r.held.Shrink(r.bytes)
	r.bytes = 0
}

// load returns the batch that holds a staging row of a slice.
func (r *replay) load(s *replaySlice, row int64) (*loaded, error) {
	for _, l := range slices.Backward(s.loaded) {
		if row >= l.at.from && row < l.at.from+l.at.rows {
			return l, nil
		}
	}
	list := s.rows.batches
	at := list[sort.Search(len(list), func(i int) bool { return list[i].from > row })-1]
	bytes := at.bytes + at.rows*half
	if err := r.held.GrowWait(r.ctx, bytes); err != nil {
		return nil, err
	}
	b, err := r.notes.store.Read(at.number)
	if err != nil {
		r.held.Shrink(bytes)
		return nil, err
	}
	defer b.Release()
	l := &loaded{at: at, rows: structOf(r.notes.side.zero.DataType(), b), refs: make([]int32, at.rows)}
	s.loaded = append(s.loaded, l)
	return l, nil
}

// structOf returns the columns of a batch as the fields of a struct.
func structOf(dt arrow.DataType, b arrow.RecordBatch) *array.Struct {
	fields := make([]arrow.ArrayData, b.NumCols())
	for i, c := range b.Columns() {
		fields[i] = c.Data()
	}
	whole := array.NewData(dt, int(b.NumRows()), []*memory.Buffer{nil}, fields, 0, 0)
	defer whole.Release()
	return array.NewStructData(whole)
}

// unload releases all batches but the furthest of each slice, where the next
// rows are.
func (r *replay) unload() {
	for i := range r.slices {
		s := &r.slices[i]
		if len(s.loaded) < 2 {
			continue
		}
		last := 0
		for k, l := range s.loaded {
			if l.at.from > s.loaded[last].at.from {
				last = k
			}
		}
		s.loaded[0], s.loaded[last] = s.loaded[last], s.loaded[0]
		for _, l := range s.loaded[1:] {
			r.release(l)
		}
		clear(s.loaded[1:])
		s.loaded = s.loaded[:1]
	}
}

func (r *replay) release(l *loaded) {
	l.rows.Release()
	r.held.Shrink(l.at.bytes + l.at.rows*half)
}

func (r *replay) expand(rows, nth, refs []int32) (*array.Struct, error) {
	for i, row := range rows {
		refs[i] = 0
		if r.starts[row] != 0 {
			refs[i] = r.starts[row] + nth[i]
		}
	}
	if err := r.gather(rows, refs); err != nil {
		return nil, err
	}
	return r.dictionary, nil
}

func (r *replay) files(row int) (one, other string) {
	s := r.slices[r.of[row]]
	return s.one, s.other
}

func (r *replay) close() {
	r.drop()
	for i := range r.slices {
		s := &r.slices[i]
		r.closeAnswers(s)
		for _, l := range s.loaded {
			r.release(l)
		}
		s.loaded = nil
	}
	r.notes.store.Release()
	r.held.Release()
}
