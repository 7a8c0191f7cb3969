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

// Step is one step that a ShardReader read (ReadStep), or the end of its stream. Other streams of
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

// judged is the end of a range of a staging table with min_match.
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

// SameRows reports whether the same rows follow two places, and the same cursors except for the
// number of steps.
func (p StepPlace) SameRows(o StepPlace) bool {
	return p.perLane == o.perLane && p.uneven == o.uneven && slices.Equal(p.at, o.at)
}

// Before and After return the places before and after the step.
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

// Span returns the slice's rows among those of the step: from one, up to another one.
func (p StepSlice) Span() (from, to int64) { return p.marks[p.from].rows, p.marks[p.to].rows }

// counts returns by how much the counts of a staging table have risen.
func (p StepSlice) counts(table int) joiner.Counts {
	rise := p.marks[p.to].counts[table]
	rise.Subtract(p.marks[p.from].counts[table])
	return rise
}

// costs returns by how much the costs of a staging table have risen.
func (p StepSlice) costs(table int) buildside.Costs {
	return p.marks[p.to].costs[table].Minus(p.marks[p.from].costs[table])
}

// stepwise is the state of a ShardReader between steps.
type stepwise struct {
	before mark
	reads  bool // ReadStep was called: before is set
	judged []judged
	within []stepMark // of the next step, as far as its rows are chosen; only counts, At and rows are set
	marks  int64      // see MarkEvery
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

// Lanes returns the number of lanes of the stream's shard.
func (s *ShardReader) Lanes() int { return len(s.shard.lanes) }

// MarkEvery makes the following steps have marks after each multiple of a number of rows, so that
// streams with batches of that size can take slices of them; 0: none. The stream has a single
// lane, which contributes rows.
func (s *ShardReader) MarkEvery(rows int64) {
	s.stepwise.marks = rows
	if s.reader != nil {
		s.reader.SetMarks(lane.Marks{Rows: rows, Reached: s.reached})
	}
}

// reached is called at the marks of a step whose rows are being chosen.
func (s *ShardReader) reached(at lane.Position, rows int64) {
	m := stepMark{rows: rows}
	m.At = []lane.Position{at}
	m.counts, m.divided, m.again = s.sequences.countsAt(s.shard.lanes, m.At)
	m.costs, m.cached = s.costs(), s.cached.Total()
	s.stepwise.within = append(s.stepwise.within, m)
}

// ReadStep reads the next step: its batch or, if skip is set, only its rows. The caller
// releases the batch. The stream is Stepwise, and reads neither in parts nor up to a limit. It
// does not check min_match: each stream that takes the step checks its own rows.
func (s *ShardReader) ReadStep(skip bool) (*Step, error) {
	if !s.stepwise.reads {
		s.stepwise.before, s.stepwise.reads = s.mark(), true
		// What Begin has read belongs to the first step.
		s.stepwise.before.costs, s.stepwise.before.cached = make([]buildside.Costs, len(s.stepwise.before.costs)), plan.CacheRead{}
	}
	out := &Step{perLane: s.shard.q, tables: s.sequences.joined.Tables()}
	some, err := s.advance(skip)
	if err != nil {
		return nil, err
	}
	before, after := s.stepwise.before, s.mark()
	switch {
	case !some:
		out.End = true
	case skip:
		out.rows = after.Skipped - before.Skipped
	default:
		out.Batch = s.RecordBatch()
		out.Batch.Retain()
		out.rows, out.counted = s.reader.LastBatch()
	}
	out.marks = append(out.marks, stepMark{mark: before, place: s.shard.place(before.Progress)})
	for _, m := range s.stepwise.within {
		out.marks = append(out.marks, s.within(before, m))
	}
	out.marks = append(out.marks, stepMark{mark: after, place: s.shard.place(after.Progress), rows: out.rows})
	out.judged = s.stepwise.judged
	s.stepwise.before, s.stepwise.within, s.stepwise.judged = after, nil, nil
	return out, nil
}

// within completes a mark within the step that begins at another one.
func (s *ShardReader) within(before mark, m stepMark) stepMark {
	m.Steps, m.Uneven = before.Steps, before.Uneven
	m.Consumed = []int64{before.Consumed[0] + m.rows}
	m.PerLane = before.PerLane + m.rows
	m.place = s.shard.place(m.Progress)
	return m
}

// advance reads or skips a step, and reports whether there was one.
func (s *ShardReader) advance(skip bool) (bool, error) {
	if err := s.Begin(); err != nil {
		return false, err
	}
	if s.reader == nil {
		if s.err = s.open(s.ctx); s.err != nil {
			return false, s.err
		}
	}
	if skip {
		some, err := s.reader.Skip()
		s.err = err
		if some || err != nil {
			return some, err
		}
	}
	some := s.Next()
	return some, s.Err()
}

// mark returns the stream's progress, and the counts of a stream that continues from there.
func (s *ShardReader) mark() mark {
	m := mark{Progress: s.progress()}
	if s.reader != nil && s.reader.Weighed() > 0 { // the lanes are ahead, and no row was returned
		m.counts, m.again = make([]joiner.Counts, len(s.sequences.joined.ClosedCounts())), s.reader.Weighed()
	} else {
		m.counts, m.divided, m.again = s.sequences.countsAt(s.shard.lanes, m.At)
	}
	m.costs, m.cached = s.costs(), s.cached.Total()
	return m
}

// costs returns the costs so far, by staging table that is read.
func (s *ShardReader) costs() []buildside.Costs {
	used := s.sequences.joined.Used()
	all := make([]buildside.Costs, len(used))
	for i, u := range used {
		all[i] = u.Costs
	}
	return all
}

// countsAt returns the counts that rewind would leave, and its result.
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

// judge checks min_match or, if steps are read, records the counts for the streams that take
// the step.
func (s *ShardReader) judge(table int, all joiner.Counts) error {
	if !s.stepwise.reads {
		return s.sequences.joined.CheckMinMatch(table, all)
	}
	s.stepwise.judged = append(s.stepwise.judged, judged{table, all, len(s.stepwise.within)})
	return nil
}

// Again returns the number of training rows that were read again, or will be when the stream
// reads alone, and not yet returned since.
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
