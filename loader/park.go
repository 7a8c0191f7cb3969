package loader

import (
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/lane"
)

// counted says that the rows of a range before one were counted when the range
// was read before.
type counted struct {
	index int   // of the lane's ranges
	row   int64 // of its final sequence
}

// takeBack takes over the counts of the open ranges, as far as their rows were
// given, and returns how many training rows will be read again. at is where the
// lanes stand. Where the plan knows a range's rows, one that was begun goes on
// with the joined batch that the lane stands in; else all of it is joined again,
// as the rows that were given are known by their number alone. The ranges are to
// be closed.
func (s *ranges) takeBack(lanes []lane.Lane, at []lane.Position) (again int64) {
	for i, l := range lanes {
		o := s.open[l.Number]
		if o == nil {
			continue
		}
		delete(s.open, l.Number)
		if o.index != at[i].Range {
			continue // the next range was opened to see whether there is a row
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

// takeAllBack forgets all counts: no row was given, though the ranges of several may
// have been read.
func (s *ranges) takeAllBack() {
	clear(s.counts)
	clear(s.open)
	s.divided = 0
}

// count adds to what ranges that are closed counted.
func (s *ranges) count(more []joiner.Counts) {
	for k, c := range more {
		s.counts[k].Add(c)
	}
}

// split returns the row of the range from which on its rows must be counted
// again, as the lane stands before given row at, and the counts of those before.
func (o *openRange) split(first, at int64) (row int64, keep []joiner.Counts) {
	start := o.from - first // the final sequence began with this row of the range
	if start+o.given+o.last <= at {
		return start + o.given + o.last, o.joined.Counts()
	}
	return start + o.given, o.counted
}

// follow takes over what earlier ranges of the stream counted.
func (s *ranges) follow(earlier *ranges) {
	copy(s.counts, earlier.counts)
	s.counted, s.divided = earlier.counted, earlier.divided
	for i, in := range s.staging {
		in.groups.Follow(earlier.staging[i].groups)
	}
}
