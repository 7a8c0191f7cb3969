package stream

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// Step is one step that a StepReader read, or the end of its stream. Other streams of the same rows
// take the step, or slices of it (TakeStep). A Step is immutable.
type Step struct {
	Batch arrow.RecordBatch // retained; nil if the step was skipped, and at the end
	End   bool              // there is no further step

	rows, counted int64 // counted: the number of requests if batches consist of requests; otherwise equal to rows
	perLane       int64 // how many rows, or requests, each lane contributes to a whole step
	tables        []string
	marks         []stepMark // before the step, within it, and after it
	judged        []judged
}

// stepMark is the state of the stream at a position within a step, or at its ends.
type stepMark struct {
	mark
	place StepPlace
	rows  int64 // the number of rows of the step before the mark
}

// judged has the counts of a staging table with min_match at the end of a range.
type judged struct {
	table  int           // index in Step.tables
	counts joiner.Counts // the counts of all rows that the reader has read up to the end of the range
	marks  int           // how many marks of the step precede the end of the range, without the first mark
}

// StepPlace is the position of a stream. If two streams of one plan and shard are at equal places,
// they have the same rows from there on. Their steps are then equal too, if their batches have the
// same columns and sizes.
type StepPlace struct {
	at      []lane.Position
	step    int64
	perLane int64
	uneven  bool
}

// Step returns the number of steps of the shard before the place.
func (p StepPlace) Step() int64 { return p.step }

// PerLane returns how many rows, or requests, each lane has returned before the place.
func (p StepPlace) PerLane() int64 { return p.perLane }

// SameRows reports whether streams at two places continue with the same rows, and with the same
// cursors except for the number of steps.
func (p StepPlace) SameRows(o StepPlace) bool {
	return p.perLane == o.perLane && p.uneven == o.uneven && slices.Equal(p.at, o.at)
}

// Before returns the place before the step.
func (s *Step) Before() StepPlace { return s.marks[0].place }

// After returns the place after the step.
func (s *Step) After() StepPlace { return s.marks[len(s.marks)-1].place }

// StepSlice holds the rows of a Step that form one step of a stream. These are all rows of the Step
// or, for a stream with smaller batches, some of them.
type StepSlice struct {
	*Step
	from, to int // indices in marks
}

// Whole returns a slice with all rows of the step.
func (s *Step) Whole() StepSlice { return StepSlice{s, 0, len(s.marks) - 1} }

// SliceAt returns the slice of the step that begins at a place and has perLane rows of each lane,
// or fewer at the end of the lanes. It returns false if the step does not contain these rows, or
// has no marks at the ends of the slice.
func (s *Step) SliceAt(at StepPlace, perLane int64) (StepSlice, bool) {
	if perLane == s.perLane {
		return s.Whole(), s.Before().SameRows(at)
	}
	from := slices.IndexFunc(s.marks, func(m stepMark) bool { return m.place.SameRows(at) })
	if from < 0 {
		return StepSlice{}, false
	}
	last := len(s.marks) - 1
	end := s.marks[from].rows + perLane
	if end > s.rows && s.rows < s.perLane && from < last {
		return StepSlice{s, from, last}, true
	}
	to := slices.IndexFunc(s.marks, func(m stepMark) bool { return m.rows == end })
	return StepSlice{s, from, to}, to > from
}

// IsWhole reports whether the slice is the whole step.
func (p StepSlice) IsWhole() bool { return p.from == 0 && p.to == len(p.marks)-1 }

// Rows returns the number of rows.
func (p StepSlice) Rows() int64 { return p.marks[p.to].rows - p.marks[p.from].rows }

// Span returns the range of the slice's rows among the rows of the step: [from, to).
func (p StepSlice) Span() (from, to int64) { return p.marks[p.from].rows, p.marks[p.to].rows }

// counts returns the counts of a staging table for the rows of the slice.
func (p StepSlice) counts(table int) joiner.Counts {
	rise := p.marks[p.to].counts[table]
	rise.Subtract(p.marks[p.from].counts[table])
	return rise
}

// costs returns the costs of a staging table for the rows of the slice.
func (p StepSlice) costs(table int) buildside.Costs {
	return p.marks[p.to].costs[table].Minus(p.marks[p.from].costs[table])
}

// mark holds a stream's progress and counts at a position.
type mark struct {
	lane.Progress
	counts  []joiner.Counts
	costs   []buildside.Costs
	cached  plan.CacheRead
	divided int64
	again   int64
}

// Place returns the stream's position.
func (s *ShardReader) Place() StepPlace { return s.shard.place(s.progress()) }

// PerLane returns how many rows, or requests, each lane contributes to a step.
func (s *ShardReader) PerLane() int64 { return s.shard.q }

// mark returns the stream's progress, and the counts with which a stream that continues from there
// begins.
func (s *ShardReader) mark() mark {
	m := mark{Progress: s.progress()}
	if s.reader != nil && s.reader.Weighed() > 0 { // rows were read to be weighed, but none was returned yet
		m.counts, m.again = make([]joiner.Counts, len(s.sequences.joined.ClosedCounts())), s.reader.Weighed()
	} else {
		m.counts, m.divided, m.again = s.sequences.countsAt(s.shard.lanes, m.At)
	}
	m.costs, m.cached = s.sequences.costs(), s.cached.Total()
	return m
}

// costs returns the costs so far, for each staging table that is read.
func (s *sequences) costs() []buildside.Costs {
	used := s.joined.Used()
	all := make([]buildside.Costs, len(used))
	for i, u := range used {
		all[i] = u.Costs
	}
	return all
}

// countsAt returns what rewind would result in, but changes nothing: the counts, how many times
// requests were divided, and the number of training rows to be read again.
func (s *sequences) countsAt(lanes []lane.Lane, at []lane.Position) (counts []joiner.Counts, divided, again int64) {
	counts, divided = s.joined.ClosedCounts(), s.divided
	for i, l := range lanes {
		var open []joiner.Counts
		var more int64
		if s.runs == nil {
			open, more = s.joined.Lane(l.Number).CountsTo(at[i].Range, at[i].Row)
		} else if one := s.permuted[l.Number]; one != nil && one.index == at[i].Range {
			before := one.before(at[i].Window)
			open, divided = before.counts, divided+before.divided
			if at[i].Row > 0 {
				more = s.spec.Plan.Rows.ShuffleWindow
			}
		}
		again += more
		joiner.AddCounts(counts, open)
	}
	return counts, divided, again
}

// Again returns the number of training rows that the stream has read again, or will read again when
// it reads alone, minus the number of rows that it has returned since.
func (s *ShardReader) Again() int64 { return s.again }

// TakesAt reports whether the stream returns a step of the shard, or leaves the step to another
// DataLoader worker. step is the step's number as in StepPlace.Step.
func (s *ShardReader) TakesAt(step int64) bool {
	return s.shard.Reading.Every.Of <= 1 || step >= s.shard.step && s.shard.Reading.Every.Takes(step-s.shard.step)
}

// Left returns how many rows the stream may return until it reaches its limit, or lane.Unknown if
// it has no limit.
func (s *ShardReader) Left() int64 { return s.shard.rowsLeft(s.progress()) }

// Resumption returns cursors with which another stream begins at the position of this stream.
func (s *ShardReader) Resumption() dataset.Cursors {
	if p := s.progress(); p.Steps == 0 {
		return s.shard.Reading.Cursor
	}
	return dataset.Cursors{s.Cursor()}
}
