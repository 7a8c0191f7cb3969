package spill

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// logReader is the matcher of a join that has a match log: each training row gets the
// next entry of its slice's log.
//
// A dictionary holds row 0 and the distinct staging rows to which the current batch refers; every
// batch gets a new one. For each slice, one batch of entries is in memory. Between batches of the
// join, one batch of staging rows is in memory, too: the last one in the log that was read. All
// this memory is reserved.
type logReader struct {
	log    *matchLog
	held   *budget.Reservation
	slices []sliceReader

	// The last batch, by row.
	slice  []int32 // the row's slice, or -1
	checks []int32
	starts []int32
	counts []int32

	picks      []pick // scratch, by row
	dictionary *array.Struct
	bytes      int64 // reserved for the dictionary
}

// sliceReader is the position in the log of one slice.
type sliceReader struct {
	*sliceLog
	next    int               // index of the next batch of entries
	current arrow.RecordBatch // the current batch of entries, or nil
	bytes   int64             // reserved for current
	entry   int               // index in current of the next entry
	loaded  []*loadedRows     // batches of staging rows in memory
}

// newLogReader returns a reader of a log. The reader's Release, or a failed call, releases the
// log's store.
func newLogReader(log *matchLog) (*logReader, error) {
	held, err := log.sliced.opts.Budget.Reserve(log.sliced.spec.Name, 0)
	if err != nil {
		log.store.Release()
		return nil, err
	}
	r := &logReader{log: log, held: held, slices: make([]sliceReader, len(log.slices))}
	for i := range r.slices {
		r.slices[i].sliceLog = &log.slices[i]
	}
	return r, nil
}

// Match implements joiner.Matcher.
func (r *logReader) Match(ctx context.Context, keys *joiner.Keys, refs []int32) (joiner.Matches, error) {
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
		if err := r.readEntry(ctx, i, &r.slices[s]); err != nil {
			return joiner.Matches{}, err
		}
		several = several || r.counts[i] != 0
	}
	copy(refs, r.starts)
	if several && r.log.rule.Multiplies() {
		// Expand gets these references, in batches that fit in memory.
		return joiner.Matches{Dictionary: r.log.sliced.row0, Counts: r.counts}, ctx.Err()
	}
	if err := r.setDictionary(ctx, nil, refs); err != nil {
		return joiner.Matches{}, err
	}
	matches := joiner.Matches{Dictionary: r.dictionary}
	if several {
		matches.Counts = r.counts
	}
	return matches, ctx.Err()
}

// Expand implements joiner.Matcher.
func (r *logReader) Expand(ctx context.Context, rows, nth, refs []int32) (*array.Struct, error) {
	for i, row := range rows {
		refs[i] = 0
		if r.starts[row] != 0 {
			refs[i] = r.starts[row] + nth[i]
		}
	}
	if err := r.setDictionary(ctx, rows, refs); err != nil {
		return nil, err
	}
	return r.dictionary, nil
}

// Files returns the files of two matches of the slice's first training row that has several
// matches. This is the first row of the slice that breaks the rule.
func (r *logReader) Files(row int) (one, other string) {
	s := r.slices[r.slice[row]]
	return s.one, s.other
}

// Release ends the join, and frees the log's disk space.
func (r *logReader) Release() {
	r.releaseDictionary()
	for i := range r.slices {
		s := &r.slices[i]
		r.releaseEntries(s)
		for _, l := range s.loaded {
			r.releaseRows(l)
		}
		s.loaded = nil
	}
	r.log.store.Release()
	r.held.Release()
}

// readEntry reads the next entry of a slice, and stores it for a row of the batch.
func (r *logReader) readEntry(ctx context.Context, row int, s *sliceReader) error {
	if s.current == nil || s.entry == int(s.current.NumRows()) {
		if err := r.nextEntries(ctx, s); err != nil {
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

// changed returns the error for training rows that differ between the two passes.
func (r *logReader) changed() error {
	return fault.New(fault.Internal, "the training rows joined with %s changed between two reads", r.log.sliced.spec.Name)
}

func (r *logReader) nextEntries(ctx context.Context, s *sliceReader) error {
	r.releaseEntries(s)
	if s.next == len(s.entries.batches) {
		return r.changed()
	}
	at := s.entries.batches[s.next]
	if err := r.held.GrowWait(ctx, at.bytes); err != nil {
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

func (r *logReader) releaseEntries(s *sliceReader) {
	if s.current != nil {
		s.current.Release()
		s.current = nil
		r.held.Shrink(s.bytes)
	}
}
