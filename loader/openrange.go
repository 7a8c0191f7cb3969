package loader

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/shuffle"
)

// openRange is an open range of a lane.
type openRange struct {
	turn
	ranges *ranges
	from   int64 // the first training row in the split
	rows   int64 // training rows as planned
	joined *joiner.Reader
	skip   int64 // rows of the final sequence that were returned before
	begun  bool

	shuffle *shuffle.Shuffle // nil: rows keep the stored order
	starts  []windowStart    // of the current window and those after it, as far as the join has rows

	counted []joiner.Counts // counts before the current joined batch
	given   int64           // rows of the final sequence before it
	last    int64           // rows of the final sequence in it
}

// next returns the next rows of the range's final sequence after the first skip rows.
func (o *openRange) next() (arrow.RecordBatch, error) {
	for {
		o.counted, o.given, o.last = o.joined.Counts(), o.given+o.last, 0
		o.begin()
		if !o.joined.Next() {
			break
		}
		o.ranges.batches++
		o.ranges.beginAhead(o.turn)
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
			WithRemedy("resume with a cursor of this very table and server version, as it came")
	}
	return nil, o.checkMinMatch(true)
}

// begin starts the scan and the builds of the range together, if the builds are sure to
// be needed, since each waits for storage. It also prepares the ranges after it.
func (o *openRange) begin() {
	if o.begun {
		return
	}
	o.begun = true
	if o.ranges.plan.Inexact == "" { // otherwise there may be no row to join
		for _, r := range o.ranges.references[o.lane] {
			r.BuildEarly(o.ranges.ctx)
		}
	}
	o.ranges.beginAhead(o.turn)
}

// final returns the rows of the joined batch that pass the post-join filter.
func (o *openRange) final() (arrow.RecordBatch, error) {
	b := o.joined.RecordBatch()
	if o.ranges.postJoin == nil {
		b.Retain()
		return b, nil
	}
	return o.ranges.postJoin.keep(b)
}

// release closes the range, whether or not it was read to its end.
func (o *openRange) release() {
	s := o.ranges
	if _, open := s.open[o.lane]; open { // otherwise takeBack has its counts
		s.count(o.joined.Counts())
		if o.shuffle != nil {
			s.divided += o.shuffle.Divided()
		}
		delete(s.open, o.lane)
	}
	o.joined.Release()
	if o.index == s.ends[o.lane]-1 {
		releaseAll(s.references[o.lane])
		delete(s.references, o.lane)
	}
}

// minMatchFrom is the number of training rows that must have reached the joins before
// min_match is checked.
const minMatchFrom = 10_000

// checkMinMatch returns an error if a range has ended and the share of matched rows,
// over all rows so far, is below a staging table's min_match. If the plan knows a
// range's rows, the check runs with the range's last batch.
func (o *openRange) checkMinMatch(ended bool) error {
	s := o.ranges
	for i, in := range s.staging {
		if in.bound.MinMatch == 0 || s.counting {
			continue
		}
		here := o.joined.Counts()[i]
		if !ended && (s.plan.Inexact != "" || here.Rows < o.rows) {
			continue
		}
		all := s.total(i)
		if share := float64(all.Matched) / float64(max(1, all.Rows)); all.Rows >= minMatchFrom && share < in.bound.MinMatch {
			return fault.New(fault.Invalid, "%d of %d training rows match %s: %.4f, where min_match asks for %g",
				all.Matched, all.Rows, in.rule.Name, share, in.bound.MinMatch).
				In(in.bound.Pinned.Name, "").
				WithRemedy("look for the keys that are missing (penstock verify), or lower min_match of %s", in.rule.Name)
		}
	}
	return nil
}

// total returns the counts of a staging input's probes over all ranges so far.
func (s *ranges) total(number int) joiner.Counts {
	all := s.counts[number]
	for _, o := range s.open {
		all.Add(o.joined.Counts()[number])
	}
	return all
}
