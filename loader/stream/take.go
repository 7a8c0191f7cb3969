package stream

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
)

// View returns a slice of a step as a batch that the stream itself would return: with the stream's
// columns, in the stream's order. The step must have these columns, and its form must agree with
// the form of the stream. The caller releases the view.
func (s *ShardReader) View(of StepSlice) (arrow.RecordBatch, error) {
	from, to := of.Span()
	if of.IsWhole() {
		if s.layout.matches(of.Batch) {
			of.Batch.Retain()
			return of.Batch, nil
		}
		to = of.Batch.NumRows() // with wire: grouped, rows of the batch are requests
	}
	ctx := s.ctx
	if hasCodes(of.Batch.Schema()) || hasCodes(s.layout.schema) { // the view may need new memory, for which the stream waits like for a batch
		entered, left := s.options.Budget.Enter(ctx, s.shard.Peer)
		defer left.Release()
		ctx = entered
	}
	return lane.View(ctx, of.Batch, lane.ViewOptions{Schema: s.layout.schema, From: from, To: to, Memory: s.options.Memory, Budget: s.options.Budget})
}

// hasCodes reports whether a batch has categories, or indexed columns.
func hasCodes(schema *arrow.Schema) bool {
	return slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return f.Type.ID() == arrow.DICTIONARY })
}

// TakeStep advances the stream, which must be parked, by a step that another ShardReader has read.
// Afterwards the stream counts as having returned batch, which is the View of the step. If skip is
// set, it counts as having skipped the step, as a step of another DataLoader worker. own reports
// that the step was read for this stream.
func (s *ShardReader) TakeStep(of StepSlice, batch arrow.RecordBatch, skip, own bool) error {
	tables, err := of.tablesAt(s.sequences.joined.Tables())
	if err == nil {
		err = of.check(tables, s.sequences.joined)
	}
	if s.err = err; err != nil {
		return err
	}
	counts, costs := make([]joiner.Counts, len(tables)), make([]buildside.Costs, len(tables))
	for i, table := range tables {
		counts[i], costs[i] = of.counts(table), of.costs(table)
	}
	from, to := of.marks[of.from], of.marks[of.to]
	s.sequences.joined.Take(counts, costs, own)
	if own {
		s.cached.Add(to.cached.Minus(from.cached))
	}
	s.sequences.divided += to.divided - from.divided
	s.again = to.again
	p := &s.earlier
	p.At = to.At
	for i := range p.Consumed {
		p.Consumed[i] += to.Consumed[i] - from.Consumed[i]
	}
	if of.End {
		return nil
	}
	p.Steps++
	amount := of.Rows()
	if of.perLane == s.shard.q {
		p.PerLane += to.PerLane - from.PerLane
		amount = of.counted
	} else {
		p.PerLane += s.shard.q // a slice of a single lane, which returns rows
	}
	if skip {
		p.Skipped += of.Rows()
		return nil
	}
	p.Batches++
	p.Rows += of.Rows()
	p.Counted += amount
	for i, sent := range s.layout.distinctIn(batch) {
		p.Distinct[i] += sent
	}
	return nil
}

// tablesAt returns the index of each named staging table in Step.tables.
func (s *Step) tablesAt(names []string) ([]int, error) {
	at := make([]int, len(names))
	for i, name := range names {
		if at[i] = slices.Index(s.tables, name); at[i] < 0 {
			return nil, fault.New(fault.Internal, "a shared step lacks the counts of %s", name)
		}
	}
	return at, nil
}

// check checks the min_match of a stream's staging tables at the end of each range that ends in the
// slice. tables has the index in Step.tables of each staging table that the stream reads.
func (p StepSlice) check(tables []int, stream *joined.Ranges) error {
	for _, j := range p.judged {
		table := slices.Index(tables, j.table)
		if table < 0 || j.marks < p.from || j.marks >= p.to {
			continue
		}
		all := stream.Used()[table].Counts
		rise := j.counts
		rise.Subtract(p.marks[p.from].counts[j.table])
		all.Add(rise)
		if err := stream.CheckMinMatch(table, all); err != nil {
			return err
		}
	}
	return nil
}
