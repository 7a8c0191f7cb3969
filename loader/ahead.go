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
	// mostAhead is how many ranges to come a stream begins before their turn. The first
	// row of a range takes two round trips of storage, one after the other; small ranges
	// are joined in less time than that.
	mostAhead = 4
	// mostAheadBytes bounds the training columns of those beyond a lane's next one, in
	// bytes as expected in memory.
	mostAheadBytes = 256 << 20
)

// turn is a range of a lane, by its number among the lane's.
type turn struct{ lane, index int }

// coming is the training rows of a range whose turn has not come.
type coming struct {
	at   plan.Range
	rows Rows
}

// beginAhead lets what a lane's ranges behind the open one need begin to be read and
// built, out of memory to spare, so that the lane does not wait for storage when it opens
// them. How far ahead depends on how many batches were asked for: who reads few rows has
// little read in vain.
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

// needed returns the number of the range before which a lane has all rows that the stream's
// limit leaves, as far as they can be counted.
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

// buildAhead begins to build what a range to come needs. It stays until the range is
// opened, unless somebody needs the memory more urgently: then it is read again.
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

// readAhead lets the training rows of a range to come begin to be read.
func (s *ranges) readAhead(of turn, at plan.Range) {
	if s.plan.Relation.Distinct != nil {
		return
	}
	at = s.readOf(at, at.From)
	rows, err := s.options.scan(s.ctx, s.trainingSource(at), s.read)
	if err != nil {
		return // as it will when the range is opened
	}
	readAhead(rows)
	s.coming[of] = coming{at: at, rows: rows}
}

// rows opens the training rows of a range, or takes those that are being read already.
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

// probeable returns the build side of a reference. What is built ahead beside
// it gives way.
func (s *ranges) probeable(ctx context.Context, r *buildside.Reference) (joiner.Probeable, error) {
	made, err := r.Probeable(ctx)
	if fault.KindOf(err) == fault.Exhausted && s.giveWay() {
		return r.Probeable(ctx)
	}
	return made, err
}

// giveWay ends what is built and read ahead for ranges to come, waits for what is built
// for open ones, and says whether there was something: what a row asks for comes first.
func (s *ranges) giveWay() bool {
	some := s.releaseAhead()
	for _, open := range s.references {
		for _, r := range open {
			some = r.Settle() || some
		}
	}
	return some
}

// releaseAhead gives up what is built and read ahead for ranges to come, and says whether
// there was something.
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
