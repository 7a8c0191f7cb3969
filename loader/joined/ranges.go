package joined

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// RangesSpec describes what a Ranges reads.
type RangesSpec struct {
	Plan    *plan.Plan
	Lanes   []LaneRanges
	Outputs []resolve.Output // the outputs that joined batches must contain
	// IndexRequests makes the training columns that are constant within a request one
	// dictionary column.
	IndexRequests bool
	// Key lists training columns that the caller uses before the join: scanned rows have these
	// columns, see Layout.Key. If the plan's batches consist of requests, joined batches have these
	// columns too, see Layout.KeptKey.
	Key     []catalog.Field
	Shuffle *ShuffleSpec // nil: rows keep the stored order
	// StepRows is the number of rows that the caller takes from a lane in each step. The first step
	// of a lane begins at row LaneRanges.Row of its first range. 0: the number is not known.
	StepRows int64
	// CountOnly means that the caller only counts rows: joins that neither drop nor repeat rows are
	// omitted, and min_match is not checked.
	CountOnly bool
	Judge     Judge // nil: CheckMinMatch
	// Cache determines how scans use the cache of decoded columns, and whether the stream uses
	// build sides that are kept from earlier streams.
	Cache dataset.CacheUse
	// CacheReads counts what scans read from the cache of decoded columns; nil: nothing is counted.
	CacheReads *plan.CacheReads
}

// ShuffleSpec describes a caller that permutes rows. For such a
// caller, scanned training rows have one more column at the end: the number of each row among the
// stored rows of its split.
type ShuffleSpec struct {
	// Appended is the number of columns that every Transform appends to the training rows.
	Appended int
	// ScanRows is the number of training rows that the caller takes at a time. While it uses them,
	// the next ScanRows rows are decoded.
	ScanRows int64
	// Starting reports whether the caller has not returned a row yet, see plan.Source.
	Starting func() bool
}

// LaneRanges are the ranges of a lane.
type LaneRanges struct {
	Number int          // the number by which Ranges.Lane finds the lane
	Ranges []plan.Range // the lane's ranges in order, up to the last range that may be opened
	First  int          // index of the first range that is opened
	Row    int64        // the row of range First's final sequence that is returned first
	Needed int          // ranges from this index on are not prefetched
}

// Ranges opens the ranges of one stream. It is used by one goroutine.
type Ranges struct {
	Layout   *Layout
	ctx      context.Context //nolint:containedctx // the stream's context, for prefetches, which may outlive the call that starts them
	track    *trace.Track    // of ctx
	joins    *Joins
	options  Options
	spec     *RangesSpec
	plan     *plan.Plan
	training *trainingRows
	staging  []*stagingInput
	postJoin *postJoin // nil: no part of the query's filter is evaluated after the joins

	lanes   map[int]*Lane
	shared  SharedReads     // shares stored bytes among sections of runs; nil: no section was declared
	batches int             // how many batches were joined so far
	counts  []joiner.Counts // the counts of the closed ranges, for each staging input
}

// Ranges returns the ranges of a stream. Nothing is opened before Lane.Open. The caller closes
// it.
func (j *Joins) Ranges(ctx context.Context, spec *RangesSpec) (*Ranges, error) {
	p := spec.Plan
	wanted := slices.Concat(resolve.Leaves(spec.Outputs), p.PostJoinColumns)
	s := &Ranges{
		Layout: newLayout(spec, wanted),
		ctx:    ctx, track: trace.Of(ctx), joins: j, options: j.options.caching(spec.Cache, spec.CacheReads), spec: spec, plan: p, lanes: map[int]*Lane{},
	}
	s.training = newTrainingRows(spec, s.options, wanted)
	for i := range p.Relation.Staging {
		in, err := newStagingInput(s, i, wanted)
		if err != nil {
			return nil, err
		}
		if in != nil {
			s.staging = append(s.staging, in)
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	for _, l := range spec.Lanes {
		s.lanes[l.Number] = newLane(s, l)
		for _, at := range l.Ranges[l.First:] {
			for _, in := range s.staging {
				in.groups.Expect(at)
			}
		}
	}
	s.counts = make([]joiner.Counts, len(s.staging))
	s.Layout.finish(spec.Outputs, s.staging)
	if p.PostJoin != nil {
		s.postJoin = &postJoin{
			filter: p.PostJoin, schema: resolve.Schema(p.PostJoinColumns), columns: s.Layout.locate(p.PostJoinColumns, s.staging), memory: s.options.Memory,
			budget: s.options.Budget,
		}
	}
	return s, nil
}

// check returns an Internal error if a column would be read that planning did not check:
// a plan serves only the columns that it was made for.
func (s *Ranges) check() error {
	training := plan.Source{Table: s.plan.Relation.Training, Planned: s.plan.Planned.Training}
	for _, c := range s.Layout.read {
		if err := training.Check(c.field); err != nil {
			return err
		}
	}
	for _, in := range s.staging {
		source := plan.Source{Table: in.bound.Pinned, Planned: s.plan.Planned.Staging[in.table]}
		for _, c := range in.read {
			if err := source.Check(c.field); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lane returns a lane of the stream, given its number.
func (s *Ranges) Lane(number int) *Lane { return s.lanes[number] }

// Follow continues the counts and the costs of the Ranges that the stream had before it was parked,
// which is closed.
func (s *Ranges) Follow(earlier *Ranges) {
	copy(s.counts, earlier.counts)
	for number, l := range earlier.lanes {
		if mine := s.lanes[number]; mine != nil {
			mine.resume = l.resume
		}
	}
	for i, in := range s.staging {
		in.groups.Continue(earlier.staging[i].groups)
	}
}

// Close releases everything that was prefetched and all file groups, and waits for builds in
// progress. The caller releases all ranges before.
func (s *Ranges) Close() {
	s.releasePrefetched()
	for _, l := range s.lanes {
		l.references.release()
		l.references = nil
	}
	for _, in := range s.staging {
		in.groups.Close()
	}
	if s.shared != nil {
		s.shared.Close()
	}
}
