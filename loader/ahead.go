package loader

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

const (
	// mostAhead is the maximum number of ranges that a stream prepares before their
	// turn. The first row of a range takes two consecutive round trips to storage, and
	// small ranges are joined faster than that.
	mostAhead = 4
	// mostAheadBytes bounds the training columns of the ranges beyond a lane's next
	// one, by their expected size in memory.
	mostAheadBytes = 256 << 20
)

// turn identifies a range by its lane and its index in that lane.
type turn struct{ lane, index int }

// coming holds the training rows of a range that is being read before its turn.
type coming struct {
	at   plan.Range
	rows Rows
}

// beginAhead starts to read and build what the lane's ranges after the open one need,
// using spare memory, so that the lane does not wait for storage when it opens them.
// The number of ranges grows with the number of batches joined so far, so short reads
// waste little prefetch.
func (s *ranges) beginAhead(open turn) {
	next := s.plan.Lanes[open.lane].Ranges[:s.needed[open.lane]]
	last := min(open.index+min(s.batches, max(1, mostAhead/len(s.ends))), len(next)-1)
	bytes := int64(0)
	for i := max(s.reached[open.lane], open.index) + 1; i <= last; i++ {
		if bytes += (next[i].To - next[i].From) * s.rowBytes; i > open.index+1 && bytes > mostAheadBytes {
			return
		}
		s.reached[open.lane] = i
		s.buildAhead(turn{open.lane, i}, next[i])
		s.readAhead(turn{open.lane, i}, next[i])
	}
}

// needed returns the number of ranges of a lane that the stream needs under its limit,
// as far as their rows are known.
func (s *stream) needed(l lane.Lane) int {
	if s.reading.Limit == 0 || s.reading.Every.Of > 1 {
		return len(l.Ranges)
	}
	i := l.Start.Range
	for left := s.reading.Limit - s.rows + l.Start.Row; i < len(l.Ranges) && left > 0; i++ {
		if l.Ranges[i] == lane.Unknown {
			return len(l.Ranges)
		}
		left -= l.Ranges[i]
	}
	return i
}

// buildAhead starts to build what an upcoming range needs. The build sides are kept
// until the range is opened, unless the memory is needed more urgently: then they are
// read again.
func (s *ranges) buildAhead(of turn, at plan.Range) {
	if len(s.built) >= mostAhead {
		return
	}
	others := int64(0)
	for _, built := range s.built {
		for _, r := range built {
			if r != nil {
				others += r.Bytes()
			}
		}
	}
	var built []*buildside.Reference
	for i, in := range s.staging {
		if !in.groups.Ahead(at, others) {
			continue
		}
		if built == nil {
			built = make([]*buildside.Reference, len(s.staging))
		}
		built[i] = in.groups.ReferenceAhead(at)
		built[i].BuildAhead(s.ctx)
		others += built[i].Bytes()
	}
	if built != nil {
		s.built[of] = built
	}
}

// readAhead starts to read the training rows of an upcoming range.
func (s *ranges) readAhead(of turn, at plan.Range) {
	if s.plan.Relation.Distinct != nil {
		return
	}
	at = s.readOf(at, at.From)
	rows, err := s.options.scan(s.ctx, s.trainingSource(at), s.read)
	if err != nil {
		return // opening the range returns the same error
	}
	readAhead(rows)
	s.coming[of] = coming{at: at, rows: rows}
}

// rows opens the training rows of a range, or returns those already being read.
func (s *ranges) rows(ctx context.Context, of turn, at plan.Range) (Rows, error) {
	next, found := s.coming[of]
	delete(s.coming, of)
	if found && next.at == at {
		return next.rows, nil
	}
	if found {
		next.rows.Release()
	}
	return s.training(ctx, at, s.read)
}

// probeable returns the build side of a reference. If memory is exhausted, it drops
// what is built and read ahead, and tries again.
func (s *ranges) probeable(ctx context.Context, r *buildside.Reference) (joiner.Probeable, error) {
	made, err := r.Probeable(ctx)
	if fault.KindOf(err) == fault.Exhausted && s.giveWay() {
		return r.Probeable(ctx)
	}
	return made, err
}

// giveWay drops what is built and read ahead for upcoming ranges, and waits for the
// builds of open ranges to end, since the current row takes precedence. It reports
// whether there was anything to drop or to wait for.
func (s *ranges) giveWay() bool {
	some := s.releaseAhead()
	for _, open := range s.references {
		for _, r := range open {
			some = r.Settle() || some
		}
	}
	return some
}

// releaseAhead drops what is built and read ahead for upcoming ranges, and reports
// whether there was anything to drop.
func (s *ranges) releaseAhead() bool {
	some := len(s.built)+len(s.coming) > 0
	for of, built := range s.built {
		delete(s.built, of)
		releaseAll(built)
	}
	for of, next := range s.coming {
		delete(s.coming, of)
		next.rows.Release()
	}
	return some
}
