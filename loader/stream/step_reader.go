package stream

import (
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// StepReader reads the steps of a ShardReader for other streams, which take them. The ShardReader
// is Stepwise, and reads neither in parts nor up to a limit. From the first step on, it does not
// check min_match: each stream that takes a step checks its own rows. It is not parked.
type StepReader struct {
	*ShardReader
	before mark       // the next step
	judged []judged   // of the next step
	within []stepMark // of the next step, as far as its rows are chosen; only counts, At and rows are set
}

// NewStepReader returns a StepReader, which replaces the ShardReader.
func NewStepReader(s *ShardReader) *StepReader { return &StepReader{ShardReader: s} }

// MarkEvery makes the following steps have marks after each multiple of a number of rows, so that
// streams with batches of that size can take slices of them; 0: none. The stream has a single
// lane, which contributes rows.
func (r *StepReader) MarkEvery(rows int64) {
	r.reader.SetMarks(lane.Marks{Rows: rows, Reached: r.reached})
}

// reached is called at the marks of a step whose rows are being chosen.
func (r *StepReader) reached(at lane.Position, rows int64) {
	m := stepMark{rows: rows}
	m.At = []lane.Position{at}
	m.counts, m.divided, m.again = r.sequences.countsAt(r.shard.lanes, m.At)
	m.costs, m.cached = r.sequences.costs(), r.cached.Total()
	r.within = append(r.within, m)
}

// record records the counts at the end of a range. It is a joined.Judge.
func (r *StepReader) record(table int, all joiner.Counts) error {
	r.judged = append(r.judged, judged{table, all, len(r.within)})
	return nil
}

// ReadStep reads the next step: its batch or, if skip is set, only its rows. The caller
// releases the batch.
func (r *StepReader) ReadStep(skip bool) (*Step, error) {
	if r.judge == nil {
		r.judge, r.before = r.record, r.mark()
		// What Begin has read belongs to the first step.
		r.before.costs, r.before.cached = make([]buildside.Costs, len(r.before.costs)), plan.CacheRead{}
	}
	out := &Step{perLane: r.shard.q, tables: r.sequences.joined.Tables()}
	some, err := r.advance(skip)
	if err != nil {
		return nil, err
	}
	before, after := r.before, r.mark()
	switch {
	case !some:
		out.End = true
	case skip:
		out.rows = after.Skipped - before.Skipped
	default:
		out.Batch = r.RecordBatch()
		out.Batch.Retain()
		out.rows, out.counted = r.reader.LastBatch()
	}
	out.marks = append(out.marks, stepMark{mark: before, place: r.shard.place(before.Progress)})
	for _, m := range r.within {
		out.marks = append(out.marks, r.complete(m))
	}
	out.marks = append(out.marks, stepMark{mark: after, place: r.shard.place(after.Progress), rows: out.rows})
	out.judged = r.judged
	r.before, r.within, r.judged = after, nil, nil
	return out, nil
}

// complete completes a mark within the next step.
func (r *StepReader) complete(m stepMark) stepMark {
	m.Steps, m.Uneven = r.before.Steps, r.before.Uneven
	m.Consumed = []int64{r.before.Consumed[0] + m.rows}
	m.PerLane = r.before.PerLane + m.rows
	m.place = r.shard.place(m.Progress)
	return m
}

// advance reads or skips a step, and reports whether there was one.
func (r *StepReader) advance(skip bool) (bool, error) {
	if err := r.Begin(); err != nil {
		return false, err
	}
	if skip {
		some, err := r.reader.Skip(r.ctx)
		r.err = err
		if some || err != nil {
			return some, err
		}
	}
	some := r.Next()
	return some, r.Err()
}
