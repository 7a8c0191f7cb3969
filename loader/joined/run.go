package joined

import (
	"context"
	"slices"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// RunJoin is rows of consecutive ranges of a lane that are joined in several sections, some of them at the same time.
// The caller releases all sections before the RunJoin.
type RunJoin struct {
	lane     *Lane
	rows     int64 // training rows of all sections
	open     []*OpenRange
	expected []plan.Range    // the sections, as they were declared
	closed   []joiner.Counts // of the sections that were released
}

// SectionSpec is consecutive rows of a range.
type SectionSpec struct {
	Index   int        // of the range in the lane
	Of      plan.Range // its rows, by which it was declared (Lane.Expect)
	Rows    plan.Range // that are joined: these, or those of the requests that begin among them
	Scanned plan.Range // Rows, and those before them that Transform needs
	Last    bool       // no section that is opened later has rows of the range
	// Transform takes ownership of the scanned rows and returns those to be joined.
	Transform func(ctx context.Context, scanned SourceRows) (SourceRows, error)
}

// Expect declares sections that will be opened: what is read of a row group is kept for others in it. It does nothing for
// those that were declared before.
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

// OpenRun begins a run, whose sections were declared, given the number of their training rows.
func (l *Lane) OpenRun(rows int64, sections []SectionSpec) *RunJoin {
	r := &RunJoin{lane: l, rows: rows, closed: make([]joiner.Counts, len(l.stream.staging))}
	for _, of := range sections {
		r.expected = append(r.expected, of.Of)
	}
	l.dropSkipped(sections)
	l.open = r
	return r
}

// dropSkipped releases what was prefetched for a run that the lane has skipped: all but that of the given sections.
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

// done ends the need of what a section shares.
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

// acquireSection is acquire for a section of a run. The lane keeps references that no open section has until the next
// section is opened.
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

// Prefetch starts to read the rows of sections that will be opened, using spare memory. It does nothing
// for ranges that the stream does not need.
func (l *Lane) Prefetch(sections []SectionSpec) {
	for _, of := range sections {
		if of.Index < l.Needed {
			l.prefetchTraining(of.Index, of.Scanned, l.expected[of.Of])
		}
	}
}

// PrefetchGroups starts to build what sections need, using spare memory, as Prefetch does.
func (l *Lane) PrefetchGroups(sections []SectionSpec) {
	for _, of := range sections {
		if _, ok := l.built[of.Index]; !ok && of.Index < l.Needed {
			l.prefetchBuildSides(of.Index)
		}
	}
}

// Finish ends the join of a section after its last row. It keeps the build sides, to which batches may refer, until
// Release. Later calls do nothing.
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
		l.references = o.references // a range to come may need the same groups
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

// End checks the counts of a run after all of its rows were joined.
func (r *RunJoin) End() error { return r.lane.stream.checkMinMatch(r, r.rows, true) }

// Release ends the run, whether or not it was read to its end.
func (r *RunJoin) Release() {
	for _, of := range r.expected {
		r.lane.done(of)
	}
	if r.lane.open == r { // otherwise its counts were taken back
		joiner.AddCounts(r.lane.stream.counts, r.closed)
		r.lane.open = nil
	}
}
