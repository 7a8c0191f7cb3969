package loader

import (
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/lane"
)

// counted marks the rows of a range, up to row, as counted when the range was read
// before.
type counted struct {
	index int   // of the range in the lane
	row   int64 // in the range's final sequence
}

// takeBack adds the counts of the open ranges for the rows that were returned, and
// returns the number of training rows to be read again. at holds the positions of the
// lanes. If the plan knows a range's rows, a range that was begun resumes at the joined
// batch that contains the lane's position. Otherwise the whole range is joined again,
// since only the number of the returned rows is known. The caller closes the ranges
// afterwards.
func (s *ranges) takeBack(lanes []lane.Lane, at []lane.Position) (again int64) {
	for i, l := range lanes {
		o := s.open[l.Number]
		if o == nil {
			continue
		}
		delete(s.open, l.Number)
		if o.index != at[i].Range {
			continue // the next range was opened only to look for a row
		}
		if o.shuffle != nil {
			before := o.before(at[i].Window)
			s.divided += before.divided
			s.count(before.counts)
			if at[i].Row > 0 {
				again += s.plan.Rows.ShuffleWindow
			}
			continue
		}
		if s.plan.Inexact != "" {
			again += at[i].Row
			continue
		}
		row, keep := o.split(s.plan.Lanes[l.Number].Ranges[o.index].From, at[i].Row)
		s.count(keep)
		s.counted[l.Number] = counted{index: o.index, row: row}
		again += at[i].Row - row
	}
	return again
}

// takeAllBack resets all counts: no row was returned, although several ranges may have
// been read.
func (s *ranges) takeAllBack() {
	clear(s.counts)
	clear(s.open)
	s.divided = 0
}

// count adds the counts of closed ranges.
func (s *ranges) count(more []joiner.Counts) {
	for k, c := range more {
		s.counts[k].Add(c)
	}
}

// split returns the row of the range from which rows must be counted again if the lane
// resumes before returned row at, and the counts of the rows before it.
func (o *openRange) split(first, at int64) (row int64, keep []joiner.Counts) {
	start := o.from - first // the range's row at which the final sequence began
	if start+o.given+o.last <= at {
		return start + o.given + o.last, o.joined.Counts()
	}
	return start + o.given, o.counted
}

// follow takes over the counts of earlier ranges of the stream.
func (s *ranges) follow(earlier *ranges) {
	copy(s.counts, earlier.counts)
	s.counted, s.divided = earlier.counted, earlier.divided
	for i, in := range s.staging {
		in.groups.Follow(earlier.staging[i].groups)
	}
}
