package joined

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// OpenRange is a range of a lane that is being joined. Its batches are valid until the
// next call of Next or Release.
type OpenRange struct {
	array.RecordReader
	lane       *Lane
	run        *RunJoin   // the run of which this is a section; nil: this is a whole range
	of         plan.Range // the section as it was declared
	index      int        // of the range in the lane
	references laneReferences
	rows       plan.Range // the training rows that are joined
	joined     *joiner.Reader
	skip       int64 // how many rows of the final sequence to skip, since they were returned before
	begun      bool

	before   []joiner.Counts // counts before the current joined batch
	returned int64           // how many rows of the final sequence precede the current joined batch
	last     int64           // how many rows of the final sequence the current joined batch has
}

// Open opens a range, given its index in the lane, and skips the first rows of its final sequence.
// If the plan does not know the range's rows, the range is joined from its first row nevertheless.
func (l *Lane) Open(ctx context.Context, index int, skip int64) (*OpenRange, error) {
	rows := l.Ranges[index]
	if l.stream.plan.Inexact == "" {
		begin := skip
		if r := l.resume; r != nil && r.index == index && r.row <= skip {
			begin = r.row
		}
		rows.From, skip = rows.From+begin, skip-begin
	}
	l.acquire(index, rows)
	o := &OpenRange{lane: l, index: index, references: l.references, rows: rows, skip: skip}
	if err := l.stream.join(ctx, o, func(ctx context.Context) (SourceRows, error) { return l.prefetched(ctx, index, rows, nil) }); err != nil {
		return nil, err
	}
	l.open = o
	return o, nil
}

// join joins training rows of a range with the staging tables. The function open opens these rows.
func (s *Ranges) join(ctx context.Context, o *OpenRange, open func(context.Context) (SourceRows, error)) error {
	training := withFiles(func(ctx context.Context) (SourceRows, error) {
		rows, err := open(ctx)
		if err != nil || s.Layout.requests == nil {
			return rows, err
		}
		return s.Layout.requests.refer(ctx, rows, s.options)
	})
	training.Columns = s.Layout.scanned()
	probes := make([]joiner.Probe, len(s.staging))
	for i, in := range s.staging {
		reference := o.references[i]
		probes[i] = joiner.Probe{
			Rule: in.rule, Key: in.key, Columns: in.fields(), Matched: in.spec.Matched,
			BuildSide: func(ctx context.Context) (joiner.Probeable, error) { return s.probeable(ctx, reference) },
		}
	}
	var err error
	if o.joined, err = joiner.Join(ctx, training, probes, s.options.joining()); err != nil {
		return err
	}
	o.RecordReader = batch.FromFunc(o.joined.Schema(), o.next, o.release)
	return nil
}

// Counts returns the counts of the joins so far, by staging table that is read.
func (o *OpenRange) Counts() []joiner.Counts { return o.joined.Counts() }

// next returns the next rows of the final sequence, without the rows to be skipped.
func (o *OpenRange) next() (arrow.RecordBatch, error) {
	for {
		o.before, o.returned, o.last = o.joined.Counts(), o.returned+o.last, 0
		o.begin()
		if !o.nextJoined() {
			break
		}
		o.lane.stream.batches++
		if o.run == nil {
			o.lane.prefetchAfter(o.index, o.left())
		}
		b, err := o.final()
		if err != nil {
			return nil, err
		}
		if err := o.checkMinMatch(false); err != nil {
			b.Release()
			return nil, err
		}
		o.last = b.NumRows()
		if b.NumRows() > o.skip {
			defer b.Release()
			from := o.skip
			o.skip = 0
			return b.NewSlice(from, b.NumRows()), nil
		}
		o.skip -= b.NumRows()
		b.Release()
	}
	if err := o.joined.Err(); err != nil {
		return nil, err
	}
	if o.skip > 0 { // possible if the plan did not know the number of rows
		return nil, fault.InvalidField("cursor.at", "the range ends %s before the position", fault.Count(o.skip, "row")).
			WithRemedy("resume with an unchanged cursor of this table and server version")
	}
	return nil, o.checkMinMatch(true)
}

// nextJoined joins the next batch.
func (o *OpenRange) nextJoined() bool {
	part := o.lane.stream.track.Enter(trace.Join)
	more := o.joined.Next()
	if part != nil {
		rows := int64(0)
		if more {
			rows = o.joined.RecordBatch().NumRows()
		}
		part.End(o.joined.Err(), trace.Attribute{Key: trace.Rows, Number: rows})
	}
	return more
}

// begin starts to build the range's build sides at the same time as its scan, since both wait for
// storage. It does so only if the build sides are sure to be needed. It also prefetches the
// following ranges.
func (o *OpenRange) begin() {
	if o.begun {
		return
	}
	o.begun = true
	if o.lane.stream.plan.Inexact == "" { // otherwise there may be no row to join
		for _, r := range o.references {
			r.PrefetchOpen(o.lane.stream.ctx)
		}
	}
	if o.run == nil {
		o.lane.prefetchAfter(o.index, o.left())
	}
}

// left returns the number of rows that follow the current joined batch, or 0 if the plan does not
// know the range's rows.
func (o *OpenRange) left() int64 {
	if o.lane.stream.plan.Inexact != "" {
		return 0
	}
	return o.rows.To - o.rows.From - o.returned - o.last
}

// final returns the rows of the joined batch that pass the post-join filter.
func (o *OpenRange) final() (arrow.RecordBatch, error) {
	b := o.joined.RecordBatch()
	if o.lane.stream.postJoin == nil {
		b.Retain()
		return b, nil
	}
	return o.lane.stream.postJoin.keep(o.lane.stream.ctx, b)
}

// release closes the range, whether or not it was read to its end.
func (o *OpenRange) release() {
	if o.run != nil {
		o.run.closeSection(o)
		return
	}
	l := o.lane
	if l.open == o { // otherwise its counts were dropped
		joiner.AddCounts(o.lane.stream.counts, o.joined.Counts())
		l.open = nil
	}
	o.joined.Release()
	if o.index == len(l.Ranges)-1 {
		l.references.release()
		l.references = nil
	}
}
