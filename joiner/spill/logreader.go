package spill

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// logReader is the matcher of a join that was written down: each training row
// gets the next entry of its slice's log.
//
// A dictionary holds row 0 and the staging rows that the current batch refers
// to, each once; it is made anew for every batch. Of each slice's log one batch
// of entries is in memory and, between batches of the join, one of staging rows:
// the furthest that was read. All of that is reserved.
type logReader struct {
	ctx    context.Context //nolint:containedctx // of the join that asks, whose calls take none
	log    *matchLog
	held   *budget.Reservation
	slices []sliceReader

	// Of the batch last matched, by row.
	slice  []int32 // or -1
	checks []int32
	starts []int32
	counts []int32

	picks      []pick // scratch, by reference
	dictionary *array.Struct
	bytes      int64 // reserved for the dictionary
}

// sliceReader is how far the log of one slice was read.
type sliceReader struct {
	*sliceLog
	next    int               // which batch of entries is read next
	current arrow.RecordBatch // the batch of entries that is being read, or nil
	bytes   int64             // reserved for it
	entry   int               // of current, read next
	loaded  []*loadedRows     // batches of staging rows in memory
}

// loadedRows is a batch of a log's staging rows in memory.
type loadedRows struct {
	at     storedBatch
	rows   *array.Struct
	places []int32 // by row: its place in picked + 1, or 0
	picked []int32 // the rows that go into the dictionary
	base   int32   // of picked in the dictionary, row 0 not counted
}

// pick is a staging row that goes into the dictionary.
type pick struct {
	from  *loadedRows // nil: row 0
	place int32       // among the rows picked there, counted from 1
}

// newLogReader reads a log, whose store it releases.
func newLogReader(ctx context.Context, log *matchLog) (*logReader, error) {
	held, err := log.sliced.opts.Budget.Reserve(log.sliced.spec.Name, 0)
	if err != nil {
		log.store.Release()
		return nil, err
	}
	r := &logReader{ctx: ctx, log: log, held: held, slices: make([]sliceReader, len(log.slices))}
	for i := range r.slices {
		r.slices[i].sliceLog = &log.slices[i]
	}
	return r, nil
}

// Match reads the entries of a batch's rows.
func (r *logReader) Match(keys *joiner.Keys, refs []int32) (joiner.Matches, error) {
	rows := keys.Rows()
	r.slice, r.checks = resize(r.slice, rows), resize(r.checks, rows)
	r.starts, r.counts = resize(r.starts, rows), resize(r.counts, rows)
	keys.Slice(len(r.slices), r.slice, r.checks)
	several := false
	for i, s := range r.slice {
		r.starts[i], r.counts[i] = 0, 0
		if s < 0 || len(r.slices[s].entries.batches) == 0 {
			continue
		}
		if err := r.readEntry(i, &r.slices[s]); err != nil {
			return joiner.Matches{}, err
		}
		several = several || r.counts[i] > 1
	}
	copy(refs, r.starts)
	if several && r.log.rule.Multiplies() {
		// All references are asked for again, in parts that fit in memory.
		return joiner.Matches{Dictionary: r.log.sliced.row0, Counts: r.counts}, r.ctx.Err()
	}
	if err := r.setDictionary(nil, refs); err != nil {
		return joiner.Matches{}, err
	}
	matches := joiner.Matches{Dictionary: r.dictionary}
	if several {
		matches.Counts = r.counts
	}
	return matches, r.ctx.Err()
}

// Expand makes a dictionary of the rows that are asked for.
func (r *logReader) Expand(rows, nth, refs []int32) (*array.Struct, error) {
	for i, row := range rows {
		refs[i] = 0
		if r.starts[row] != 0 {
			refs[i] = r.starts[row] + nth[i]
		}
	}
	if err := r.setDictionary(rows, refs); err != nil {
		return nil, err
	}
	return r.dictionary, nil
}

// Files names the files of two of the several staging rows of the first row
// that has several: the first row that breaks the rule.
func (r *logReader) Files(row int) (one, other string) {
	s := r.slices[r.slice[row]]
	return s.one, s.other
}

// Close ends the join, and gives the log's disk back.
func (r *logReader) Close() {
	r.dropDictionary()
	for i := range r.slices {
		s := &r.slices[i]
		r.dropEntries(s)
		for _, l := range s.loaded {
			r.dropRows(l)
		}
		s.loaded = nil
	}
	r.log.store.Release()
	r.held.Release()
}

// readEntry reads the next entry of a slice, for a row of the batch.
func (r *logReader) readEntry(row int, s *sliceReader) error {
	if s.current == nil || s.entry == int(s.current.NumRows()) {
		if err := r.nextEntries(s); err != nil {
			return err
		}
	}
	value := func(column int) int32 { return s.current.Column(column).(*array.Int32).Value(s.entry) }
	if value(entryCheck) != r.checks[row] {
		return r.changed()
	}
	r.starts[row], r.counts[row] = value(entryStart), value(entryCount)
	s.entry++
	return nil
}

// changed says that training rows did not come as they came before.
func (r *logReader) changed() error {
	return fault.New(fault.Internal, "the training rows beside %s came otherwise when they were read again", r.log.sliced.spec.Name)
}

func (r *logReader) nextEntries(s *sliceReader) error {
	r.dropEntries(s)
	if s.next == len(s.entries.batches) {
		return r.changed()
	}
	at := s.entries.batches[s.next]
	if err := r.held.GrowWait(r.ctx, at.bytes); err != nil {
		return err
	}
	b, err := r.log.store.Read(at.number)
	if err != nil {
		r.held.Shrink(at.bytes)
		return err
	}
	s.current, s.bytes, s.entry = b, at.bytes, 0
	s.next++
	return nil
}

func (r *logReader) dropEntries(s *sliceReader) {
	if s.current != nil {
		s.current.Release()
		s.current = nil
		r.held.Shrink(s.bytes)
	}
}

// setDictionary makes the dictionary, and turns starts into references: refs
// holds the start of the staging row that is wanted, or 0, and then its
// reference. rows says which row of the batch each is about; nil: each about
// its own.
func (r *logReader) setDictionary(rows, refs []int32) error {
	used, err := r.pickRows(rows, refs)
	if err != nil {
		return err
	}
	if err := r.gatherRows(used); err != nil {
		return err
	}
	for i, p := range r.picks {
		if p.from != nil {
			refs[i] = p.from.base + p.place
		}
	}
	for _, l := range used {
		for _, row := range l.picked {
			l.places[row] = 0
		}
		l.picked = l.picked[:0]
	}
	clear(r.picks)
	r.keepFurthest()
	return nil
}

// pickRows loads the staging rows that are wanted, and picks each of them once.
// It returns the batches in which some are picked, in the order of their first.
func (r *logReader) pickRows(rows, starts []int32) ([]*loadedRows, error) {
	r.picks = resize(r.picks, len(starts))
	var used []*loadedRows
	for i, start := range starts {
		r.picks[i] = pick{}
		if start == 0 {
			continue
		}
		row := i
		if rows != nil {
			row = int(rows[i])
		}
		l, err := r.loadRows(&r.slices[r.slice[row]], int64(start)-1)
		if err != nil {
			return nil, err
		}
		at := int64(start) - 1 - l.at.from
		if l.places[at] == 0 {
			if len(l.picked) == 0 {
				used = append(used, l)
			}
			l.picked = append(l.picked, int32(at))
			l.places[at] = int32(len(l.picked))
		}
		r.picks[i] = pick{from: l, place: l.places[at]}
	}
	return used, nil
}

// gatherRows makes the dictionary: row 0, then the rows that are picked.
func (r *logReader) gatherRows(used []*loadedRows) error {
	row0 := r.log.sliced.row0
	segments := []batch.Segment{{Values: row0, Rows: 1}}
	rows, bytes := int32(0), int64(0)
	for _, l := range used {
		l.base = rows
		rows += int32(len(l.picked))
		bytes += l.at.bytes / l.at.rows * int64(len(l.picked))
		segments = append(segments, batch.Segment{Values: l.rows, Indices: l.picked})
	}
	r.dropDictionary()
	if err := r.held.GrowWait(r.ctx, bytes); err != nil {
		return err
	}
	r.bytes = bytes
	made, err := batch.Gather(row0.DataType(), segments, r.log.sliced.opts.allocator())
	if err != nil {
		return err
	}
	r.dictionary = made.(*array.Struct)
	return nil
}

func (r *logReader) dropDictionary() {
	if r.dictionary != nil {
		r.dictionary.Release()
		r.dictionary = nil
	}
	r.held.Shrink(r.bytes)
	r.bytes = 0
}

// placeSize is the bytes of a loaded row beside the batch: its place.
const placeSize = 4

// loadRows returns the batch that holds a staging row of a slice's log, counted
// from 0.
func (r *logReader) loadRows(s *sliceReader, row int64) (*loadedRows, error) {
	for _, l := range slices.Backward(s.loaded) {
		if row >= l.at.from && row < l.at.from+l.at.rows {
			return l, nil
		}
	}
	i, _ := s.rows.batches.find(row)
	at := s.rows.batches[i]
	bytes := at.bytes + at.rows*placeSize
	if err := r.held.GrowWait(r.ctx, bytes); err != nil {
		return nil, err
	}
	b, err := r.log.store.Read(at.number)
	if err != nil {
		r.held.Shrink(bytes)
		return nil, err
	}
	defer b.Release()
	l := &loadedRows{at: at, rows: structOf(r.log.sliced.row0.DataType(), b), places: make([]int32, at.rows)}
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

// keepFurthest drops all batches of staging rows but the furthest of each slice,
// where the next rows are.
func (r *logReader) keepFurthest() {
	for i := range r.slices {
		s := &r.slices[i]
		if len(s.loaded) < 2 {
			continue
		}
		furthest := 0
		for k, l := range s.loaded {
			if l.at.from > s.loaded[furthest].at.from {
				furthest = k
			}
		}
		s.loaded[0], s.loaded[furthest] = s.loaded[furthest], s.loaded[0]
		for _, l := range s.loaded[1:] {
			r.dropRows(l)
		}
		clear(s.loaded[1:])
		s.loaded = s.loaded[:1]
	}
}

func (r *logReader) dropRows(l *loadedRows) {
	l.rows.Release()
	r.held.Shrink(l.at.bytes + l.at.rows*placeSize)
}
