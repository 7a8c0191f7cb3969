package stream

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// Step is one step of a stream, or its end. A ShardReader reads it (ReadStep), and others of the
// same reading at an equal Place take it (TakeStep). It is immutable.
type Step struct {
	Batch   arrow.RecordBatch // retained; nil if the step was skipped, and at the end
	Rows    int64             // in the batch, or skipped
	End     bool              // there is no further step
	counted int64             // Rows, or requests if batches consist of requests
	after   StepPlace

	// The differences of the reader's progress and counts.
	perLane  int64
	consumed []int64
	distinct []int64
	counts   []joiner.Counts
	costs    []buildside.Costs
	divided  int64
	again    int64 // training rows that a stream that continues from here must read again
	judged   []judged
}

// judged is the end of a range of a staging table with min_match.
type judged struct {
	table  int
	counts joiner.Counts // of the rows since the step before
}

// StepPlace is the position of a stream. Streams of one plan, shard and reading at equal places
// have equal steps and cursors from there on.
type StepPlace struct {
	at      []lane.Position
	step    int64
	perLane int64
	uneven  bool
}

// Step returns the number of steps of the shard before the place.
func (p StepPlace) Step() int64 { return p.step }

// Equal reports whether two places are the same.
func (p StepPlace) Equal(o StepPlace) bool {
	return p.step == o.step && p.perLane == o.perLane && p.uneven == o.uneven && slices.Equal(p.at, o.at)
}

// After returns the place after the step.
func (s *Step) After() StepPlace { return s.after }

// stepwise is the state of a ShardReader between steps.
type stepwise struct {
	before mark
	reads  bool // ReadStep was called: before is set
	judged []judgedAt
}

// judgedAt is a judgement with the counts since the stream began.
type judgedAt struct {
	table int
	all   joiner.Counts
}

// mark is a stream's progress and counts after a step.
type mark struct {
	progress
	counts  []joiner.Counts
	costs   []buildside.Costs
	divided int64
	again   int64
}

// Place returns the stream's position.
func (s *ShardReader) Place() StepPlace { return s.place(s.progress()) }

func (s *ShardReader) place(p progress) StepPlace {
	return StepPlace{at: p.at, step: s.start.step + p.steps, perLane: s.start.rows + p.perLane, uneven: s.start.uneven || p.uneven}
}

// ReadStep reads the next step: its batch or, if skip is set, only its rows. The caller
// releases the batch. The stream is Stepwise, and reads neither in parts nor up to a limit.
// It does not check min_match, which each stream that takes the step does for itself.
func (s *ShardReader) ReadStep(skip bool) (*Step, error) {
	if !s.stepwise.reads {
		s.stepwise.before, s.stepwise.reads = s.mark(), true
	}
	s.stepwise.judged = nil
	out := &Step{}
	some, err := s.advance(skip)
	if err != nil {
		return nil, err
	}
	before, after := s.stepwise.before, s.mark()
	switch {
	case !some:
		out.End = true
	case skip:
		out.Rows = after.skipped - before.skipped
	default:
		out.Batch = s.RecordBatch()
		out.Batch.Retain()
		out.Rows, out.counted = s.reader.LastBatch()
	}
	out.rise(before, after)
	out.after = s.place(after.progress)
	for _, j := range s.stepwise.judged {
		j.all.Subtract(before.counts[j.table])
		out.judged = append(out.judged, judged{table: j.table, counts: j.all})
	}
	s.stepwise.before = after
	return out, nil
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

// rise sets the differences of progress and counts.
func (s *Step) rise(before, after mark) {
	s.perLane = after.perLane - before.perLane
	s.consumed = differences(after.consumed, before.consumed)
	s.distinct = differences(after.distinct, before.distinct)
	s.divided, s.again = after.divided-before.divided, after.again
	s.counts = slices.Clone(after.counts)
	for i, c := range before.counts {
		s.counts[i].Subtract(c)
	}
	s.costs = slices.Clone(after.costs)
	for i, c := range before.costs {
		s.costs[i] = s.costs[i].Minus(c)
	}
}

// differences returns the values minus earlier ones; nil counts as zeros.
func differences(values, earlier []int64) []int64 {
	out := slices.Clone(values)
	for i, v := range earlier {
		out[i] -= v
	}
	return out
}

// mark returns the stream's progress, and the counts that a stream has that continues from
// there.
func (s *ShardReader) mark() mark {
	m := mark{progress: s.progress()}
	if s.reader != nil && s.reader.Weighed() > 0 { // the lanes are ahead, and no row was returned
		m.counts, m.again = make([]joiner.Counts, len(s.sequences.joined.ClosedCounts())), s.reader.Weighed()
	} else {
		m.counts, m.divided, m.again = s.sequences.countsAt(s.start.lanes, m.at)
	}
	for _, u := range s.sequences.joined.Used() {
		m.costs = append(m.costs, u.Costs)
	}
	return m
}

// countsAt returns the counts that rewind would leave, and its result.
func (s *sequences) countsAt(lanes []lane.Lane, at []lane.Position) (counts []joiner.Counts, divided, again int64) {
	counts, divided = s.joined.ClosedCounts(), s.divided
	for i, l := range lanes {
		var open []joiner.Counts
		var more int64
		if s.window == 0 {
			open, more = s.joined.CountsTo(l.Number, at[i].Range, at[i].Row)
		} else if one := s.permuted[l.Number]; one != nil && one.joined.Index() == at[i].Range {
			before := one.before(at[i].Window)
			open, divided = before.counts, divided+before.divided
			if at[i].Row > 0 {
				more = s.window
			}
		}
		again += more
		for j, c := range open {
			counts[j].Add(c)
		}
	}
	return counts, divided, again
}

// judge checks min_match or, if steps are read, records the counts for the streams that take
// the step.
func (s *ShardReader) judge(table int, all joiner.Counts) error {
	if !s.stepwise.reads {
		return s.sequences.joined.CheckMinMatch(table, all)
	}
	s.stepwise.judged = append(s.stepwise.judged, judgedAt{table, all})
	return nil
}

// TakeStep advances the stream, which is parked, by a step that another ShardReader read: the
// stream has then returned the step's batch or, with skip, skipped it as a step of another
// DataLoader worker. own reports that the step was read for this stream.
func (s *ShardReader) TakeStep(of *Step, skip, own bool) error {
	sequences := s.sequences
	for _, j := range of.judged {
		all := sequences.joined.Used()[j.table].Counts
		all.Add(j.counts)
		if s.err = sequences.joined.CheckMinMatch(j.table, all); s.err != nil {
			return s.err
		}
	}
	sequences.joined.Take(of.counts, of.costs, own)
	sequences.divided += of.divided
	s.again = of.again
	p := &s.earlier
	p.at = of.after.at
	p.consumed = sums(slices.Clone(of.consumed), p.consumed)
	p.perLane += of.perLane
	switch {
	case of.End:
	case skip:
		p.steps, p.skipped = p.steps+1, p.skipped+of.Rows
	default:
		p.steps, p.batches = p.steps+1, p.batches+1
		p.distinct = sums(slices.Clone(of.distinct), p.distinct)
		s.rows, s.amount = s.rows+of.Rows, s.amount+of.counted
	}
	return nil
}

// Again returns the number of training rows that were read again, or will be when the stream
// reads alone, and not yet returned since.
func (s *ShardReader) Again() int64 { return s.again }

// Takes reports whether the stream takes the next step, or leaves it to another DataLoader
// worker.
func (s *ShardReader) Takes() bool {
	every := s.every()
	return every.Of <= 1 || every.Step == 0
}

// TakesAt reports the same for a step of the shard, counted as Place counts them.
func (s *ShardReader) TakesAt(step int64) bool {
	return s.spec.Reading.Every.Of <= 1 || step >= s.start.step && s.spec.Reading.Every.Takes(step-s.start.step)
}

// Left returns the number of rows up to the stream's limit; lane.Unknown if it has none.
func (s *ShardReader) Left() int64 {
	if s.spec.Reading.Limit == 0 {
		return lane.Unknown
	}
	return s.spec.Reading.Limit - s.rows
}

// Resumption returns the cursors with which another stream begins at this one's position.
func (s *ShardReader) Resumption() dataset.Cursors {
	if p := s.progress(); p.steps == 0 {
		return s.spec.Reading.Cursor
	}
	return dataset.Cursors{s.Cursor()}
}

// Form is the form of the batches of a stream with wire: auto: which columns are indexed.
type Form struct{ indexed []resolve.Indexed }

// Equal reports whether two forms are the same.
func (f Form) Equal(o Form) bool {
	return slices.EqualFunc(f.indexed, o.indexed, func(a, b resolve.Indexed) bool { return a.Name == b.Name })
}

// Form returns the form of the stream's batches; false if it depends on the first batch, which
// was not read.
func (s *ShardReader) Form() (Form, bool) { return Form{s.layout.indexed}, s.layout.decided }

// SetForm sets the form of the batches to that of another stream.
func (s *ShardReader) SetForm(f Form) {
	if !s.layout.decided {
		s.setForm(f)
	}
}
