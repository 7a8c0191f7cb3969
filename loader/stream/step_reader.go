package stream

import (
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
)

// StepReader reads the steps of a ShardReader for other streams, which take the steps. The
// ShardReader must be Stepwise, must read all splits of the plan, and must not have a limit. It is
// never parked. After the first call of ReadStep, it does not check min_match any more: each stream
// that takes steps checks its own rows.
type StepReader struct {
	*ShardReader
	before mark       // the state before the next step
	judged []judged   // the ends of ranges in the next step
	within []stepMark // the marks within the next step so far, without the fields that the method complete sets
}

// NewStepReader returns a StepReader, which replaces the ShardReader.
func NewStepReader(s *ShardReader) *StepReader { return &StepReader{ShardReader: s} }

// MarkEvery makes the following steps have a mark after each multiple of a number of rows, so that
// streams with batches of that size can take slices of the steps. 0 means no marks. The stream must
// have a single lane, which contributes rows.
func (r *StepReader) MarkEvery(rows int64) {
	r.reader.SetMarks(lane.Marks{Rows: rows, Reached: r.reached})
}

// reached is called at each mark of a step while the step's rows are chosen.
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

// ReadStep reads the next step. If skip is set, it only reads past the rows of the step, and makes
// no batch. The caller releases the batch.
func (r *StepReader) ReadStep(skip bool) (*Step, error) {
	if r.judge == nil {
		r.judge, r.before = r.record, r.mark()
		// The first step includes the costs of what Begin has read.
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

// complete sets the other fields of a mark that reached has made.
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
