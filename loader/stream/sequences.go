package stream

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/shuffle"
)

// opens describes the final sequences of lanes.
type opens struct {
	spec      joined.RangesSpec // without what the shuffle needs
	window    int64             // stored rows of a shuffle window; 0: rows keep the stored order
	batchRows int64             // rows that a lane takes in a step
}

// sequences opens the final sequences of a stream's lanes: joined ranges, permuted within
// windows if the plan asks for that. It is used by one goroutine.
type sequences struct {
	opens
	options  Options
	joined   *joined.Ranges
	permuted map[int]*permuted // the open ranges, by lane, if rows are permuted
	divided  int64             // requests divided by windows or ranges, in the closed ranges
	exact    bool              // rewind takes back counts up to the row, and not to a joined batch
}

// permuted is an open range whose rows are permuted within windows.
type permuted struct {
	joined  *joined.OpenRange
	shuffle *shuffle.Shuffle
	starts  []windowStart // of the current window and those after it, as far as the join has rows
}

// windowStart holds the counts of the rows before a window.
type windowStart struct {
	window  int64
	counts  []joiner.Counts
	divided int64
}

// maxShuffled is the maximum number of rows that are permuted at a time.
const maxShuffled = 1 << 16

// newSequences returns the sequences. The caller closes its joined ranges.
func newSequences(ctx context.Context, options Options, of opens) (*sequences, error) {
	s := &sequences{opens: of, options: options, permuted: map[int]*permuted{}}
	if of.window > 0 {
		s.spec.Appended, s.spec.Ordinals, s.spec.Scanned, s.spec.ScanRows = 2, true, s.scanned, of.window
	}
	var err error
	s.joined, err = options.Joins.Ranges(ctx, s.spec)
	return s, err
}

// follow continues the counts of the stream's earlier sequences, which are closed.
func (s *sequences) follow(earlier *sequences) {
	s.joined.Follow(earlier.joined)
	s.divided = earlier.divided
}

// open opens the final sequence of a range. It is the lane.Open of a stream.
func (s *sequences) open(ctx context.Context, number int, from lane.Position) (lane.Sequence, error) {
	if s.window > 0 {
		return s.openShuffled(ctx, number, from)
	}
	rows, err := s.joined.Open(ctx, number, from.Range, from.Row)
	if err != nil {
		return nil, err
	}
	return lane.AsStored(rows), nil
}

// openShuffled opens a range whose rows are permuted within windows, at the beginning
// of the window that contains the lane's position.
func (s *sequences) openShuffled(ctx context.Context, number int, from lane.Position) (lane.Sequence, error) {
	whole := s.joined.Range(number, from.Range)
	one := &permuted{}
	crossed := func(window int64) {
		one.starts = append(one.starts, windowStart{window: window, counts: one.joined.Counts(), divided: one.shuffle.DividedRequests()})
	}
	transform := func(ctx context.Context, scanned joined.SourceRows) (joined.SourceRows, error) {
		made, err := shuffle.New(scanned.Schema(), shuffle.Options{
			Rows: s.window, First: whole.From, Start: from.Window, Seed: s.spec.Plan.ShuffleSeed(whole.Split), Key: s.joined.Key(), Whole: s.spec.Plan.Rows.Requests,
			EnterWindow: crossed, ReleasePrefetched: s.joined.ReleasePrefetched, Memory: s.options.Memory, Budget: s.options.Budget,
		})
		if err != nil {
			scanned.Release()
			return nil, err
		}
		one.shuffle = made
		return &offsetRows{RecordReader: made.Training(ctx, scanned), scanned: scanned, shuffle: made}, nil
	}
	opened, err := s.joined.OpenTransformed(ctx, number, from.Range, joined.Transformation{
		From: whole.From + from.Window*s.window, Transform: transform,
		Closed: func() {
			s.divided += one.shuffle.DividedRequests()
			delete(s.permuted, number)
		},
	})
	if err != nil {
		return nil, err
	}
	one.joined, s.permuted[number] = opened, one
	rows := shuffle.JoinedColumns{
		Ordinal: s.joined.Appended(), Priority: s.joined.Appended() + 1, Begins: one.begins, Skip: from.Row, BatchRows: s.stepRows(),
	}
	if requests := s.joined.Requests(); requests != nil {
		rows.Requests = &requests.Index
	}
	return one.shuffle.Windows(ctx, opened, rows)
}

// stepRows returns the number of rows of a batch of a permuted range: as many as the lane
// takes in a step.
func (s *sequences) stepRows() int {
	if s.spec.Plan.Rows.Requests {
		return defaultBatchRows // the number of rows of a step is unknown
	}
	return int(min(s.batchRows, maxShuffled))
}

// scanned returns the rows to scan of a range whose rows are joined from one on.
func (s *sequences) scanned(whole plan.Range, from int64) plan.Range {
	read := plan.Range{Split: whole.Split, From: from, To: whole.To}
	switch {
	case s.spec.Plan.Relation.Distinct != nil:
		read = whole // repeated rows are known only after reading all rows
	case s.spec.Plan.Rows.Requests:
		read.From = max(whole.From, from-s.window) // to know which requests of the previous window continue
	case len(s.spec.Key) > 0 && from > 0:
		read.From-- // to know whether the previous row has the same request
	}
	return read
}

// rewind takes back the counts of the open ranges for the rows that were not returned, and
// returns the number of training rows to be read again. at holds the positions of the
// lanes. The caller closes the ranges afterwards.
func (s *sequences) rewind(lanes []lane.Lane, at []lane.Position) (again int64) {
	for i, l := range lanes {
		if s.window == 0 {
			again += s.rewindStored(l.Number, at[i])
			continue
		}
		one := s.permuted[l.Number]
		if one == nil {
			continue
		}
		delete(s.permuted, l.Number)
		if one.joined.Index() != at[i].Range {
			s.joined.Discard(l.Number, nil)
			continue // the next range was opened only to look for a row
		}
		before := one.before(at[i].Window)
		s.divided += before.divided
		s.joined.Discard(l.Number, before.counts)
		if at[i].Row > 0 {
			again += s.window
		}
	}
	return again
}

// rewindStored is rewind for a lane whose rows are not permuted.
func (s *sequences) rewindStored(number int, at lane.Position) (again int64) {
	if !s.exact {
		return s.joined.Rewind(number, at.Range, at.Row)
	}
	counts, again := s.joined.CountsTo(number, at.Range, at.Row)
	s.joined.Discard(number, counts)
	return again
}

// discardAll takes back all counts.
func (s *sequences) discardAll() {
	s.joined.DiscardAll()
	clear(s.permuted)
	s.divided = 0
}

// dividedRequests returns the number of requests that windows and ranges have divided
// so far.
func (s *sequences) dividedRequests() int64 {
	divided := s.divided
	for _, one := range s.permuted {
		divided += one.shuffle.DividedRequests()
	}
	return divided
}

// begins drops the counts before windows that were already returned.
func (o *permuted) begins(window int64) {
	o.starts = slices.DeleteFunc(o.starts, func(s windowStart) bool { return s.window < window })
}

// before returns the counts of the rows before the window that contains the lane's
// position.
func (o *permuted) before(window int64) windowStart {
	for _, s := range o.starts {
		if s.window >= window {
			return s
		}
	}
	return windowStart{counts: o.joined.Counts(), divided: o.shuffle.DividedRequests()}
}

// offsetRows are the rows of a scan without some of the first.
type offsetRows struct {
	array.RecordReader
	scanned joined.SourceRows
	shuffle *shuffle.Shuffle
}

// Begin implements joined.SourceRows.
func (r *offsetRows) Begin() { r.scanned.Begin() }

// Files implements joined.SourceRows.
func (r *offsetRows) Files() func(row int64) string {
	files := r.scanned.Files()
	return func(row int64) string { return files(row + r.shuffle.SkippedRows()) }
}
