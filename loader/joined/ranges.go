package joined

import (
	"context"
	"slices"

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
	Outputs []resolve.Output // of the joined batches
	// IndexRequests makes the training columns that are constant within a request one
	// dictionary column.
	IndexRequests bool
	// Key lists training columns to be scanned that the caller uses before the join, see
	// Layout.Key. If the plan's batches consist of requests, joined batches have them, see Layout.KeptKey.
	Key     []catalog.Field
	Shuffle *ShuffleSpec // nil: rows keep the stored order
	// StepRows is the number of rows that the caller takes of a lane at a time, from LaneRanges.Row of its first range on.
	// 0: it is not known.
	StepRows int64
	// CountOnly means that the caller only counts rows: joins that change no number of
	// rows are left out, and min_match is not checked.
	CountOnly bool
	Judge     Judge // nil: CheckMinMatch
	// Cache is how scans and build sides use what the server keeps of earlier streams.
	Cache dataset.CacheUse
	// CacheReads counts what scans read from the cache of decoded columns; nil: it is not counted.
	CacheReads *plan.CacheReads
}

// ShuffleSpec is what a Ranges needs to know of a caller that permutes rows. The last column of the scanned training rows
// is then their number among the stored rows of their split.
type ShuffleSpec struct {
	// Appended is the number of columns that every Transform appends to the training rows.
	Appended int
	// ScanRows is the number of training rows that the caller takes at a time: they are
	// decoded while the previous ones are used.
	ScanRows int64
	// Starting reports whether the caller has returned no row yet, see plan.Source.
	Starting func() bool
}

// LaneRanges are the ranges of a lane.
type LaneRanges struct {
	Number int          // by which Ranges.Lane refers to the lane
	Ranges []plan.Range // in order, up to the last one that is opened
	First  int          // index of the first one that is opened
	Row    int64        // of the first one's final sequence that is returned first
	Needed int          // no range from this index on is prefetched
}

// Ranges opens the ranges of one stream. It is used by one goroutine.
type Ranges struct {
	Layout   *Layout
	ctx      context.Context //nolint:containedctx // of the stream: what is prefetched belongs to no call
	joins    *Joins
	options  Options
	spec     *RangesSpec
	plan     *plan.Plan
	training *trainingRows
	staging  []*stagingInput
	postJoin *postJoin // nil: the query's filter names no joined column

	lanes   map[int]*Lane
	shared  SharedReads     // of the sections of runs; nil: none was declared
	batches int             // joined so far
	counts  []joiner.Counts // by staging input, of the closed ranges
}

// Ranges returns the ranges of a stream. Nothing is opened before Lane.Open. The caller closes
// it.
func (j *Joins) Ranges(ctx context.Context, spec *RangesSpec) (*Ranges, error) {
	p := spec.Plan
	wanted := slices.Concat(resolve.Leaves(spec.Outputs), p.PostJoinColumns)
	s := &Ranges{
		Layout: newLayout(spec, wanted),
		ctx:    ctx, joins: j, options: j.options.caching(spec.Cache, spec.CacheReads), spec: spec, plan: p, lanes: map[int]*Lane{},
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

// Follow continues the counts and the costs of a closed Ranges that the stream had before
// it was parked.
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

// Close releases what was prefetched and every file group, and waits for builds in
// progress. All ranges have been released.
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
