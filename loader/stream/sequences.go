package stream

import (
	"context"
	"sync/atomic"

	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// opens describes the final sequences of lanes that newSequences can open.
type opens struct {
	spec      joined.RangesSpec  // newSequences sets its Shuffle
	runs      map[int][]plan.Run // by lane; nil: rows keep the stored order
	batchRows int64              // the number of rows that a step takes from a lane
}

// sequences opens the final sequences of a stream's lanes: joined ranges or, if the plan permutes
// rows within windows, permuted runs. It is used by one goroutine.
type sequences struct {
	opens
	options  Options
	joined   *joined.Ranges
	permuted map[int]*permutedRun // the open runs, by lane, if rows are permuted
	divided  int64                // how many times windows or runs have divided a request, in the closed runs
	exact    bool                 // rewind keeps the counts of all returned rows, and not only up to a joined batch
	started  atomic.Bool          // the consumer has received a batch and requested another one
}

// maxShuffled is the maximum number of rows that are permuted at a time.
const maxShuffled = 1 << 16

// newSequences returns the sequences. The caller closes the result's field joined.
func newSequences(ctx context.Context, options Options, of opens) (*sequences, error) {
	s := &sequences{opens: of, options: options, permuted: map[int]*permutedRun{}}
	if of.runs != nil {
		rows := of.spec.Plan.Rows
		s.spec.Shuffle = &joined.ShuffleSpec{
			Appended: 2, ScanRows: max(1, rows.ShuffleWindow/rows.ShuffleParts), Starting: func() bool { return !s.started.Load() },
		}
		s.started.Store(s.spec.CountOnly)
	}
	var err error
	s.joined, err = options.Joins.Ranges(ctx, &s.spec)
	return s, err
}

// follow continues the counts of the stream's earlier sequences, which are closed.
func (s *sequences) follow(earlier *sequences) {
	s.joined.Follow(earlier.joined)
	s.divided = earlier.divided
}

// open opens a final sequence: a range, or a run if rows are permuted. It is the lane.Open of a stream.
func (s *sequences) open(ctx context.Context, number int, from lane.Position) (lane.Sequence, error) {
	if s.runs != nil {
		return s.openRun(ctx, number, from)
	}
	rows, err := s.joined.Lane(number).Open(ctx, from.Range, from.Row)
	if err != nil {
		return nil, err
	}
	return lane.AsStored(rows), nil
}

// windowBatchRows returns the number of rows of a batch of a permuted run. If there is only one
// lane, each step takes one such batch without a copy. If there are several lanes, each step copies
// the rows that it takes, and larger batches of the run cost less.
func (s *sequences) windowBatchRows() int {
	switch {
	case s.spec.Plan.Rows.Requests:
		return defaultBatchRows // the number of rows of a step is unknown
	case len(s.runs) > 1:
		return int(min(max(s.batchRows, defaultBatchRows), maxShuffled))
	default:
		return int(min(s.batchRows, maxShuffled))
	}
}

// rewind subtracts the counts of rows of the open ranges that were not returned, and returns the
// number of training rows that must be read again. at holds the positions of the lanes. The caller
// closes the ranges afterwards.
func (s *sequences) rewind(lanes []lane.Lane, at []lane.Position) (again int64) {
	for i, l := range lanes {
		if s.runs == nil {
			again += s.rewindStored(l.Number, at[i])
			continue
		}
		one := s.permuted[l.Number]
		if one == nil {
			continue
		}
		delete(s.permuted, l.Number)
		if one.index != at[i].Range {
			s.joined.Lane(l.Number).Discard(nil)
			continue // the open run is the next one, which was opened only to find out whether it has a row
		}
		before := one.before(at[i].Window)
		s.divided += before.divided
		s.joined.Lane(l.Number).Discard(before.counts)
		if at[i].Row > 0 {
			again += s.spec.Plan.Rows.ShuffleWindow
		}
	}
	return again
}

// rewindStored does the work of rewind for a lane whose rows are not permuted.
func (s *sequences) rewindStored(number int, at lane.Position) (again int64) {
	l := s.joined.Lane(number)
	if !s.exact {
		return l.Rewind(at.Range, at.Row)
	}
	counts, again := l.CountsTo(at.Range, at.Row)
	l.Discard(counts)
	return again
}

// discardAll drops all counts.
func (s *sequences) discardAll() {
	s.joined.DiscardAll()
	clear(s.permuted)
	s.divided = 0
}

// dividedRequests returns how many times windows and runs have divided a request so far.
func (s *sequences) dividedRequests() int64 {
	divided := s.divided
	for _, one := range s.permuted {
		divided += one.divided()
	}
	return divided
}
