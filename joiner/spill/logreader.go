package spill

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

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
		several = several || r.counts[i] != 0
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
