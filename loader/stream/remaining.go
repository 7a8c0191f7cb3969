package stream

import (
	"slices"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
)

// The methods in this file derive from a stream's progress at which positions its lanes are, and
// what is left to read.

// lanesAt returns the lanes, with the positions that they have reached as their starts.
func (s *shard) lanesAt(p lane.Progress) []lane.Lane {
	lanes := slices.Clone(s.lanes)
	for i := range lanes {
		lanes[i].Start = p.At[i]
	}
	return lanes
}

// ranges returns for each lane the ranges that are still to be joined.
func (s *shard) ranges(p lane.Progress) []joined.LaneRanges {
	var all []joined.LaneRanges
	for _, l := range s.lanesAt(p) {
		all = append(all, joined.LaneRanges{
			Number: l.Number, Ranges: s.Plan.Lanes[l.Number].Ranges[:s.rangeOf(l, len(l.Ranges))],
			First: s.rangeOf(l, l.Start.Range), Row: l.Start.Row, Needed: s.rangeOf(l, s.needed(l, s.rowsLeft(p))),
		})
	}
	return all
}

// needed returns the index after the last sequence of a lane that is needed for a number of rows.
// If the numbers of rows of sequences are unknown, all sequences count as needed.
func (s *shard) needed(l lane.Lane, rows int64) int {
	if rows == lane.Unknown || s.Reading.Every.Of > 1 {
		return len(l.Ranges)
	}
	i := l.Start.Range
	for have := -l.Start.Row; i < len(l.Ranges) && have < rows; i++ {
		if l.Ranges[i] == lane.Unknown {
			return len(l.Ranges)
		}
		have += l.Ranges[i]
	}
	return i
}

// rowsLeft returns how many rows may be returned until the limit is reached, or lane.Unknown if
// there is no limit.
func (s *shard) rowsLeft(p lane.Progress) int64 {
	if s.Reading.Limit == 0 {
		return lane.Unknown
	}
	return s.Reading.Limit - p.Rows
}

// stepsLeft returns how many steps are left to return or skip. lane.Unknown means all steps up to
// the last row of the lanes.
func (s *shard) stepsLeft(p lane.Progress) int64 {
	switch {
	case s.rowsLeft(p) == 0:
		return 0
	case !s.Reading.Tail.Drops():
		return lane.Unknown
	}
	return max(0, s.counts.Shortest-s.rows)/s.q - p.Steps
}

// every returns which steps are returned, counted from the progress p. The reading's Every counts
// steps from the query's cursor instead, which may be before p.
func (s *shard) every(p lane.Progress) lane.Every {
	every := s.Reading.Every
	of := int64(max(1, every.Of))
	return lane.Every{Step: ((int64(every.Step)-p.Steps)%of + of) % of, Of: of}
}

// counted returns how many of the counted rows of each lane are left, if the rows were counted and
// the lanes are read to their ends.
func (s *shard) counted(p lane.Progress) lane.Counted {
	lastRow := s.Reading.Limit == 0 && s.Part.IsZero() // lanes end after their last row
	if !lastRow || s.counts == nil || s.uneven || s.Plan.Inexact == "" {
		return lane.Counted{}
	}
	left := make([]int64, len(s.lanes))
	for i, l := range s.lanes {
		left[i] = max(0, s.counts.Lanes[l.Number]-s.rows) - p.Consumed[i]
	}
	return lane.Counted{Left: left, Differs: func(number int) error { return differs(number, s.counts.Lanes[number]) }}
}

// ended reports whether all lanes have returned all of their rows.
func (s *shard) ended(p lane.Progress) bool {
	for i, at := range p.At {
		if at.Range < len(s.lanes[i].Ranges) {
			return false
		}
	}
	return true
}

// place returns the place of a stream. If all lanes have ended, the last step may have been smaller
// than the others. Then perLane is the number of rows, or requests, of the longest lane.
func (s *shard) place(p lane.Progress) StepPlace {
	perLane := p.PerLane
	if s.ended(p) {
		perLane = min(perLane, slices.Max(p.Consumed))
	}
	return StepPlace{at: p.At, step: s.step + p.Steps, perLane: s.rows + perLane, uneven: s.uneven || p.Uneven}
}

// cursor returns the cursor of a stream.
func (s *shard) cursor(p lane.Progress) dataset.Cursor {
	c, place := s.Plan.Cursor(), s.place(p)
	c.Shard, c.Step = s.Reading.Shard, place.step
	c.Given, c.Uneven = place.perLane, place.uneven
	c.At = []dataset.Position{}
	for i, at := range p.At {
		c.At = append(c.At, s.position(s.lanes[i], at))
	}
	if s.counts != nil && s.Plan.Inexact != "" {
		c.Counted = s.counts.Of(c.Shard)
	}
	return c
}

// position returns the position of a lane in the form that cursors contain.
func (s *shard) position(l lane.Lane, at lane.Position) dataset.Position {
	return dataset.Position{Lane: l.Number, Range: s.rangeOf(l, at.Range), Window: at.Window, Row: at.Row}
}
