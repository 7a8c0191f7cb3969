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

// Step is one step that a StepReader read, or the end of its stream. Other streams of
// the same rows take the step, or a slice of it (TakeStep). It is immutable.
type Step struct {
	Batch arrow.RecordBatch // retained; nil if the step was skipped, and at the end
	End   bool              // there is no further step

	rows, counted int64 // counted: rows, or requests if batches consist of requests
	perLane       int64 // rows of a whole step, or requests, that each lane contributes
	tables        []string
	marks         []stepMark // before the step, within it, and after it
	judged        []judged
}

// stepMark is the state of the stream within a step.
type stepMark struct {
	mark
	place StepPlace
	rows  int64 // of the step before it
}

// judged has the counts of a staging table with min_match at the end of a range.
type judged struct {
	table  int           // among Step.tables
	counts joiner.Counts // of all rows of the reader so far
	marks  int           // marks of the step before it, without the first
}

// StepPlace is the position of a stream. Streams of one plan and shard at equal places have the
// same rows from there on, and equal steps if their batches have the same columns and sizes.
type StepPlace struct {
	at      []lane.Position
	step    int64
	perLane int64
	uneven  bool
}

// Step returns the number of steps of the shard before the place.
func (p StepPlace) Step() int64 { return p.step }

// PerLane returns the number of rows, or requests, that each lane has returned before the place.
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

// StepSlice is the rows of a Step that are one step of a stream: all of them, or, for a stream with
// smaller batches, some.
type StepSlice struct {
	*Step
	from, to int // marks
}

// Whole returns all rows of the step.
func (s *Step) Whole() StepSlice { return StepSlice{s, 0, len(s.marks) - 1} }

// SliceAt returns the rows after a place: perLane of each lane, fewer only at the end. It returns
// false if the step does not have them, or has no marks there.
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

// Span returns the positions of the slice's first row, and of the row after its last, in the step.
func (p StepSlice) Span() (from, to int64) { return p.marks[p.from].rows, p.marks[p.to].rows }

// counts returns the counts of a staging table for the slice.
func (p StepSlice) counts(table int) joiner.Counts {
	rise := p.marks[p.to].counts[table]
	rise.Subtract(p.marks[p.from].counts[table])
	return rise
}

// costs returns the costs of a staging table for the slice.
func (p StepSlice) costs(table int) buildside.Costs {
	return p.marks[p.to].costs[table].Minus(p.marks[p.from].costs[table])
}

// mark is a stream's progress and counts after a row.
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

// PerLane returns the number of rows of a step, or requests, that each lane contributes.
func (s *ShardReader) PerLane() int64 { return s.shard.q }

// mark returns the stream's progress, and the counts of a stream that continues from there.
func (s *ShardReader) mark() mark {
	m := mark{Progress: s.progress()}
	if s.reader != nil && s.reader.Weighed() > 0 { // the lanes are ahead, and no row was returned
		m.counts, m.again = make([]joiner.Counts, len(s.sequences.joined.ClosedCounts())), s.reader.Weighed()
	} else {
		m.counts, m.divided, m.again = s.sequences.countsAt(s.shard.lanes, m.At)
	}
	m.costs, m.cached = s.sequences.costs(), s.cached.Total()
	return m
}

// costs returns the costs so far, by staging table that is read.
func (s *sequences) costs() []buildside.Costs {
	used := s.joined.Used()
	all := make([]buildside.Costs, len(used))
	for i, u := range used {
		all[i] = u.Costs
	}
	return all
}

// countsAt returns the counts and the divided requests that rewind would leave, and the number of
// training rows to be read again.
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

// Again returns the number of training rows that the stream has read again, or will when it reads
// alone, less the rows that it has returned since.
func (s *ShardReader) Again() int64 { return s.again }

// TakesAt reports whether the stream takes a step of the shard, counted as Place counts them, or
// leaves it to another DataLoader worker.
func (s *ShardReader) TakesAt(step int64) bool {
	return s.shard.Reading.Every.Of <= 1 || step >= s.shard.step && s.shard.Reading.Every.Takes(step-s.shard.step)
}

// Left returns the number of rows up to the stream's limit; lane.Unknown if it has none.
func (s *ShardReader) Left() int64 { return s.shard.rowsLeft(s.progress()) }

// Resumption returns the cursors with which another stream begins at this one's position.
func (s *ShardReader) Resumption() dataset.Cursors {
	if p := s.progress(); p.Steps == 0 {
		return s.shard.Reading.Cursor
	}
	return dataset.Cursors{s.Cursor()}
}
