package joined

import (
	"context"
	"slices"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// RunJoin joins rows of consecutive ranges of a lane in several sections. Several sections may be
// open at the same time. The caller releases all sections before the RunJoin.
type RunJoin struct {
	lane     *Lane
	rows     int64 // the number of training rows of all sections
	open     []*OpenRange
	expected []plan.Range    // the rows by which the sections were declared
	closed   []joiner.Counts // the counts of the finished sections, for each staging input
}

// SectionSpec describes a section: consecutive rows of a range.
type SectionSpec struct {
	Index   int        // of the range in the lane
	Of      plan.Range // the section's rows, by which the section was declared (Lane.Expect)
	Rows    plan.Range // the rows that are joined: the rows Of, or the rows of all requests that begin in Of
	Scanned plan.Range // the rows that are scanned: Rows, and the rows before them that Transform needs
	Last    bool       // no section of the range is opened after this one
	// Transform takes ownership of the scanned rows and returns those to be joined.
	Transform func(ctx context.Context, scanned SourceRows) (SourceRows, error)
}

// Expect declares sections that will be opened. When a section reads bytes of a row group, bytes
// that other declared sections need are kept for them. Expect does nothing for sections that were
// declared before.
func (l *Lane) Expect(sections []SectionSpec) {
	s := l.stream
	if s.training.whole {
		return
	}
	if s.shared == nil {
		s.shared = s.options.Share()
	}
	for _, of := range sections {
		if _, ok := l.expected[of.Of]; !ok {
			l.expected[of.Of] = s.shared.Expect(s.training.source(of.Scanned)).Shared
		}
	}
}

// OpenRun begins a run. Its sections were declared before (Expect), and rows is the number of their
// training rows.
func (l *Lane) OpenRun(rows int64, sections []SectionSpec) *RunJoin {
	r := &RunJoin{lane: l, rows: rows, closed: make([]joiner.Counts, len(l.stream.staging))}
	for _, of := range sections {
		r.expected = append(r.expected, of.Of)
	}
	l.dropSkipped(sections)
	l.open = r
	return r
}

// dropSkipped releases what was prefetched for runs that the lane has skipped, which is everything
// that the given sections do not need.
func (l *Lane) dropSkipped(sections []SectionSpec) {
	needed, scanned, indices := map[plan.Range]bool{}, map[plan.Range]bool{}, map[int]bool{}
	for _, of := range sections {
		needed[of.Of], scanned[of.Scanned], indices[of.Index] = true, true, true
	}
	for of := range l.expected {
		if !needed[of] {
			l.done(of)
		}
	}
	for at, rows := range l.reading {
		if !scanned[at] {
			delete(l.reading, at)
			rows.Release()
		}
	}
	for index, built := range l.built {
		if !indices[index] {
			delete(l.built, index)
			built.release()
		}
	}
}

// done declares that a section needs no more shared bytes.
func (l *Lane) done(of plan.Range) {
	if shared := l.expected[of]; shared != nil {
		shared.Done()
	}
	delete(l.expected, of)
}

// Skip declares that no section of a range, given its index in the lane, will be opened.
func (r *RunJoin) Skip(index int) {
	for _, in := range r.lane.stream.staging {
		in.groups.MarkReached(r.lane.Ranges[index])
	}
	r.lane.reachedRanges++
}

// Drop declares that a section has no rows to be joined, and will not be opened.
func (r *RunJoin) Drop(of SectionSpec) {
	r.lane.done(of.Of)
	if of.Last {
		r.Skip(of.Index)
	}
}

// Open opens a section.
func (r *RunJoin) Open(ctx context.Context, of SectionSpec) (*OpenRange, error) {
	l := r.lane
	o := &OpenRange{lane: l, run: r, index: of.Index, of: of.Of, rows: of.Rows, references: l.acquireSection(of)}
	err := l.stream.join(ctx, o, func(ctx context.Context) (SourceRows, error) {
		scanned, err := l.prefetched(ctx, of.Index, of.Scanned, l.expected[of.Of])
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

// acquireSection is like acquire, for a section of a run. Then it releases the references that the
// lane kept while no section was open.
func (l *Lane) acquireSection(of SectionSpec) laneReferences {
	references := make(laneReferences, len(l.stream.staging))
	for i, in := range l.stream.staging {
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

// Prefetch starts to read the rows of sections that will be opened, using spare memory. It ignores
// sections of ranges that the stream does not need.
func (l *Lane) Prefetch(sections []SectionSpec) {
	for _, of := range sections {
		if of.Index < l.Needed {
			l.prefetchTraining(of.Index, of.Scanned, l.expected[of.Of])
		}
	}
}

// PrefetchGroups starts to build the build sides that sections need, using spare memory. It ignores
// sections of ranges that the stream does not need.
func (l *Lane) PrefetchGroups(sections []SectionSpec) {
	for _, of := range sections {
		if _, ok := l.built[of.Index]; !ok && of.Index < l.Needed {
			l.prefetchBuildSides(of.Index)
		}
	}
}

// Finish ends the join of a section after its last row. The build sides are kept until Release,
// since batches may refer to them. Further calls of Finish do nothing.
func (o *OpenRange) Finish() {
	r := o.run
	at := slices.Index(r.open, o)
	if at < 0 {
		return
	}
	r.open = slices.Delete(r.open, at, at+1)
	joiner.AddCounts(r.closed, o.joined.Counts())
	o.joined.Release()
	r.lane.done(o.of)
}

// closeSection finishes a section, and releases its build sides.
func (r *RunJoin) closeSection(o *OpenRange) {
	o.Finish()
	if l := r.lane; len(r.open) == 0 && l.reachedRanges < len(l.Ranges)-l.First {
		l.references.release()
		l.references = o.references // a later range may need the same groups
		return
	}
	o.references.release()
}

// Counts returns the counts of the joins so far, by staging table that is read.
func (r *RunJoin) Counts() []joiner.Counts {
	all := append([]joiner.Counts{}, r.closed...)
	for _, o := range r.open {
		joiner.AddCounts(all, o.joined.Counts())
	}
	return all
}

// End checks the min_match of staging tables after all rows of the run were joined.
func (r *RunJoin) End() error { return r.lane.stream.checkMinMatch(r, r.rows, true) }

// Release ends the run, whether or not it was read to its end.
func (r *RunJoin) Release() {
	for _, of := range r.expected {
		r.lane.done(of)
	}
	if r.lane.open == r { // otherwise its counts were dropped
		joiner.AddCounts(r.lane.stream.counts, r.closed)
		r.lane.open = nil
	}
}
