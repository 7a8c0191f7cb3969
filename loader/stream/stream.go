package stream

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// Options holds what all streams of a server share.
type Options struct {
	Joins  *joined.Joins
	Budget *budget.Budget   // nil: unlimited
	Memory memory.Allocator // for batches
	Cores  *cores.Cores     // assemble batches; nil: each stream uses one core
	// MaxBatchBytes is the maximum memory of a batch; 0: no limit.
	MaxBatchBytes int64
}

// ReadSpec describes how a plan is read.
type ReadSpec struct {
	Plan      *plan.Plan
	Reading   dataset.Reading  // with its defaults set, of one shard
	Outputs   []resolve.Output // the columns of Reading
	BatchRows int              // the result of the function BatchRows for Reading
	Counts    *dataset.Counts  // the counts of the plan's rows; nil: the rows were not counted
	Part      plan.Part        // the splits of the plan to read; zero: all of them
	Peer      string           // the client's host; the streams of one host share a part of the memory
	Stepwise  bool             // the stream keeps separate counts for each step, see Step
}

// ShardReader reads one shard of a plan, through a lane.Reader. It opens nothing before the first
// Next, and while the stream is parked, it has no lane.Reader. When the stream is parked, the
// counts of rows that the lane.Reader has read but not returned are subtracted. The next
// lane.Reader counts these rows again.
type ShardReader struct {
	ctx     context.Context //nolint:containedctx // a reader's pulls carry no context of their own
	options Options
	shard   shard

	refs      atomic.Int64
	held      *release.Handle // keeps the plan's memory reserved, its snapshots from expiring, and deletes in memory
	layout    wireLayout
	reader    *lane.Reader // nil while the stream is parked
	sequences *sequences   // the sequences of reader, or of the last reader if the stream is parked
	err       error
	earlier   lane.Progress // the progress of the earlier readers
	again     int64         // how many training rows were read again, minus the rows returned since
	judge     joined.Judge  // replaces the checks of min_match; nil: min_match is checked
	back      setback       // the state before the current step
	cached    plan.CacheReads
}

// New returns a stream. Nothing is read before the first Next. The caller releases the
// stream; canceling ctx ends it.
func New(ctx context.Context, options Options, spec ReadSpec) (*ShardReader, error) {
	if len(spec.Outputs) == 0 {
		return nil, fault.InvalidField("columns", "no column is requested")
	}
	begun, err := begin(spec)
	if err != nil {
		return nil, err
	}
	if spec.Reading.Tail.Drops() && begun.counts == nil {
		return nil, fault.New(fault.Internal, "all shards end at the same step, which is unknown since the rows were not counted")
	}
	layout, err := newLayout(spec)
	if err != nil {
		return nil, err
	}
	s := &ShardReader{ctx: ctx, options: options, shard: begun, layout: layout}
	for _, one := range begun.lanes {
		s.earlier.At, s.earlier.Consumed = append(s.earlier.At, one.Start), append(s.earlier.Consumed, 0)
	}
	s.refs.Store(1)
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Own makes the stream release a Handle when it is released. A nil Handle holds nothing.
func (s *ShardReader) Own(held *release.Handle) { s.held = release.All(s.held, held) }

// Schema implements array.RecordReader. With wire: auto it is final only after Begin.
func (s *ShardReader) Schema() *arrow.Schema { return s.layout.schema }

// RecordBatch implements array.RecordReader.
func (s *ShardReader) RecordBatch() arrow.RecordBatch {
	if s.reader == nil {
		return nil
	}
	return s.reader.RecordBatch()
}

// Record is the old name of RecordBatch in the Arrow library.
func (s *ShardReader) Record() arrow.RecordBatch { return s.RecordBatch() }

// Err implements array.RecordReader.
func (s *ShardReader) Err() error {
	if s.err != nil || s.reader == nil {
		return s.err
	}
	return s.reader.Err()
}

// Retain implements array.RecordReader.
func (s *ShardReader) Retain() { s.refs.Add(1) }

// Release implements array.RecordReader.
func (s *ShardReader) Release() {
	if s.refs.Add(-1) != 0 {
		return
	}
	if s.reader != nil {
		s.reader.Release()
	}
	s.held.Release()
}

// BatchRows returns the number of rows of the batch that was returned last. With wire: grouped, it
// returns the number of rows of all requests of that batch.
func (s *ShardReader) BatchRows() int64 {
	rows, _ := s.reader.LastBatch()
	return rows
}

// Next implements array.RecordReader.
func (s *ShardReader) Next() bool {
	if s.Begin() != nil {
		return false
	}
	s.back = s.beforeStep()
	if s.reader == nil {
		if s.err = s.open(s.ctx); s.err != nil {
			return false
		}
	}
	if before, _ := s.reader.LastBatch(); before > 0 {
		s.sequences.started.Store(true)
	}
	if !s.reader.Next() {
		return false
	}
	rows, _ := s.reader.LastBatch()
	s.again -= min(rows, s.again)
	return true
}

// open makes a new reader that resumes at the stream's position.
func (s *ShardReader) open(ctx context.Context) error {
	ctx, entered := s.options.Budget.Enter(ctx, s.shard.Peer) // the stream may wait for memory
	opened, err := newSequences(ctx, s.options, s.opens())
	if err != nil {
		entered.Release()
		return err
	}
	if s.sequences != nil {
		opened.follow(s.sequences)
	}
	opened.exact = s.shard.Stepwise
	s.sequences = opened
	s.reader = lane.New(ctx, lane.Options{
		Lanes: s.shard.lanesAt(s.earlier), Rows: s.shard.q, Request: opened.joined.Layout.KeptKey, Grouped: s.layout.grouped(),
		Steps: s.shard.stepsLeft(s.earlier), Limit: max(0, s.shard.rowsLeft(s.earlier)), Every: s.shard.every(s.earlier), Counted: s.shard.counted(s.earlier),
		Layout: s.layout.inLane(opened.joined.Layout.Columns), Open: opened.open, Requests: opened.joined.Layout.Requests,
		Closed: func() {
			opened.joined.Close()
			entered.Release()
		},
		Memory: s.options.Memory, Budget: s.options.Budget, Cores: s.options.Cores, MaxBytes: s.options.MaxBatchBytes,
		SizedBy: sizedBy(s.shard.Reading),
	})
	return nil
}

// opens describes the final sequences of the stream's lanes from its position on.
func (s *ShardReader) opens() opens {
	p := s.shard.Plan
	of := opens{
		spec: joined.RangesSpec{
			Plan: p, Outputs: s.shard.Outputs, Lanes: s.shard.ranges(s.earlier),
			IndexRequests: s.layout.mayIndex(resolve.RequestTable), Key: p.RequestKey,
			Cache: s.shard.Reading.Cache, CacheReads: &s.cached,
			Judge: func(table int, all joiner.Counts) error {
				if s.judge != nil {
					return s.judge(table, all)
				}
				return s.sequences.joined.CheckMinMatch(table, all)
			},
		},
		runs: s.shard.runs, batchRows: s.shard.q,
	}
	if of.runs == nil && !p.Rows.Requests {
		of.spec.StepRows = s.shard.q
	}
	return of
}
