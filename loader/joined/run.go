package joined

import (
	"context"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// RunJoin is rows of consecutive ranges of a lane that are joined in several sections, some of them at the same time.
// The caller releases all sections before the RunJoin.
type RunJoin struct {
	ranges *Ranges
	lane   *laneState
	rows   int64 // training rows of all sections
	open   []*OpenRange
	closed []joiner.Counts // of the sections that were released
}

// SectionSpec is consecutive rows of a range.
type SectionSpec struct {
	Index   int        // of the range in the lane
	Rows    plan.Range // that are joined
	Scanned plan.Range // Rows, and those before them that Transform needs
	Last    bool       // no section that is opened later has rows of the range
	// Transform takes ownership of the scanned rows and returns those to be joined.
	Transform func(ctx context.Context, scanned SourceRows) (SourceRows, error)
}

// OpenRun begins a run of a lane, given the number of training rows of all its sections.
func (s *Ranges) OpenRun(number int, rows int64) *RunJoin {
	l := s.lanes[number]
	r := &RunJoin{ranges: s, lane: l, rows: rows, closed: make([]joiner.Counts, len(s.staging))}
	l.open = r
	return r
}

// Skip declares that no section of a range, given its index in the lane, will be opened.
func (r *RunJoin) Skip(index int) {
	for _, in := range r.ranges.staging {
		in.groups.MarkReached(r.lane.Ranges[index])
	}
	r.lane.reachedRanges++
}

// Open opens a section.
func (r *RunJoin) Open(ctx context.Context, of SectionSpec) (*OpenRange, error) {
	s, l := r.ranges, r.lane
	o := &OpenRange{ranges: s, lane: l, run: r, index: of.Index, rows: of.Rows, references: s.acquireSection(l, of)}
	err := s.join(ctx, o, func(ctx context.Context) (SourceRows, error) {
		scanned, err := s.prefetched(ctx, l, of.Scanned)
		if err != nil {
			return nil, err
		}
		return of.Transform(ctx, scanned)
	})
	if err != nil {
		o.references.release()
		return nil, err
	}
	r.open = append(r.open, o)
	return o, nil
}

// acquireSection is acquire for a section of a run. The lane keeps references that no open section has until the next
// section is opened.
func (s *Ranges) acquireSection(l *laneState, of SectionSpec) laneReferences {
	references := make(laneReferences, len(s.staging))
	for i, in := range s.staging {
		if of.Last {
			in.groups.MarkReached(of.Rows)
		}
		references[i] = in.groups.Reference(of.Rows)
	}
	if of.Last {
		l.reachedRanges++
	}
	l.built[of.Index].release()
	delete(l.built, of.Index)
	l.references.release()
	l.references = nil
	return references
}

// Prefetch starts to read the rows of sections of a lane that will be opened, using spare memory. It does nothing
// for ranges that the stream does not need.
func (s *Ranges) Prefetch(number int, sections []SectionSpec) {
	l := s.lanes[number]
	for _, of := range sections {
		if of.Index < l.Needed {
			s.prefetchTraining(l, of.Scanned)
		}
	}
}

// PrefetchGroups starts to build what ranges of a lane need, using spare memory, as Prefetch does.
func (s *Ranges) PrefetchGroups(number int, indices []int) {
	l := s.lanes[number]
	for _, index := range indices {
		if _, ok := l.built[index]; !ok && index < l.Needed {
			s.prefetchBuildSides(l, index)
		}
	}
}

// closeSection adds the counts of a section to those of the run, and releases it.
func (r *RunJoin) closeSection(o *OpenRange) {
	for i, c := range o.joined.Counts() {
		r.closed[i].Add(c)
	}
	for i, other := range r.open {
		if other == o {
			r.open = append(r.open[:i], r.open[i+1:]...)
			break
		}
	}
	o.joined.Release()
	if l := r.lane; len(r.open) == 0 && l.reachedRanges < len(l.Ranges)-l.First {
		l.references.release()
		l.references = o.references // a range to come may need the same groups
		return
	}
	o.references.release()
}

// Counts returns the counts of the joins so far, by staging table that is read.
func (r *RunJoin) Counts() []joiner.Counts {
	all := append([]joiner.Counts{}, r.closed...)
	for _, o := range r.open {
		for i, c := range o.joined.Counts() {
			all[i].Add(c)
		}
	}
	return all
}

// End checks the counts of a run of which all rows were joined.
func (r *RunJoin) End() error { return r.ranges.checkMinMatch(r.Counts(), r.rows, true) }

// Release ends the run, whether or not it was read to its end.
func (r *RunJoin) Release() {
	if r.lane.open == r { // otherwise its counts were taken back
		r.ranges.add(r.closed)
		r.lane.open = nil
	}
}
