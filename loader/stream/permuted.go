package stream

import (
	"context"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/shuffle"
)

// permutedRun is an open run. Its rows are permuted within windows: each part of the run is joined separately, and a window
// takes rows from all parts.
type permutedRun struct {
	*sequences
	number int // the lane's number
	lane   *joined.Lane
	index  int // index of the run in the lane
	run    plan.Run
	joined *joined.RunJoin
	parts  []*partReader
	left   map[int]int // by index of a range in the lane: how many of its sections have not been opened
	begun  int         // the number of windows that have begun so far
	// borders caches the results of the method border. A key identifies a row by Split and From.
	borders map[plan.Range]int64
}

// windowStart holds the counts of the rows of a run, or of a part, that precede a window.
type windowStart struct {
	window  int64
	counts  []joiner.Counts
	divided int64 // how many times earlier windows divided a request
}

// openRun opens a run of a lane at the beginning of the window that contains the lane's position.
func (s *sequences) openRun(ctx context.Context, number int, from lane.Position) (lane.Sequence, error) {
	r := &permutedRun{
		sequences: s, number: number, lane: s.joined.Lane(number), index: from.Range, run: s.runs[number][from.Range],
		left: map[int]int{}, borders: map[plan.Range]int64{},
	}
	sections := r.sectionsOf(&r.run, from.Window)
	all, first := r.specs(sections)
	r.lane.Expect(all)
	r.joined = r.lane.OpenRun(r.run.Rows-r.run.RowsBefore(from.Window), all)
	s.permuted[number] = r
	r.declare(sections)
	if !r.whole() {
		r.lane.Prefetch(first)
	}
	parts, err := r.openParts(ctx)
	if err != nil {
		r.release()
		return nil, err
	}
	rows := shuffle.JoinedColumns{
		Ordinal: s.joined.Layout.Appended, Priority: s.joined.Layout.Appended + 1, Start: from.Window, Skip: from.Row, BatchRows: s.windowBatchRows(),
		Begins: r.begins, Ended: r.joined.End, Closed: r.release,
	}
	if requests := s.joined.Layout.Requests; requests != nil {
		rows.Requests = &requests.Index
	}
	return shuffle.NewWindows(ctx, parts, rows, r.options())
}

// options returns the options for package shuffle.
func (r *permutedRun) options() shuffle.Options {
	return shuffle.Options{
		Key: r.sequences.joined.Layout.Key, Whole: r.whole(), ReleasePrefetched: r.sequences.joined.ReleasePrefetched,
		Memory: r.sequences.options.Memory, Budget: r.sequences.options.Budget, Cores: r.sequences.options.Cores,
	}
}

// whole reports whether windows must not divide requests.
func (r *permutedRun) whole() bool { return r.spec.Plan.Rows.Requests }

// declare makes the run's parts, given the sections of each part. It declares that no section will
// be opened of ranges without sections.
func (r *permutedRun) declare(sections [][]plan.Section) {
	for i := range r.run.Ranges() {
		r.left[r.run.First+i] = 0
	}
	for i, of := range sections {
		r.parts = append(r.parts, &partReader{run: r, number: i, sections: of})
		for _, section := range of {
			r.left[section.Range]++
		}
	}
	for index, sections := range r.left {
		if sections == 0 {
			r.joined.Skip(index)
		}
	}
}

// openParts opens the first section of each part, and returns the parts that have rows. If no part
// has rows, it returns one part without rows.
func (r *permutedRun) openParts(ctx context.Context) ([]shuffle.PartRows, error) {
	var parts []shuffle.PartRows
	for _, p := range r.parts {
		if err := p.open(ctx); err != nil {
			return nil, err
		}
		if p.current != nil {
			parts = append(parts, p)
		}
	}
	if parts == nil {
		parts = append(parts, newEmptyPart(r.sequences.joined.Layout.Appended+2))
	}
	return parts, nil
}

// section returns the specification with which a section is joined, except for its Transform.
func (r *permutedRun) section(of plan.Section) joined.SectionSpec {
	out := joined.SectionSpec{Index: of.Range, Of: of.Rows, Rows: of.Rows, Scanned: of.Rows}
	switch p := r.spec.Plan; {
	case p.Relation.Distinct != nil:
		out.Scanned = r.lane.Ranges[of.Range] // repeated rows can be found only by reading all rows of the range
	case !r.whole() && len(r.spec.Key) > 0:
		out.Scanned.From = max(0, of.Rows.From-rowsBefore(p)) // to find out whether the first row continues a request
	}
	return out
}

// maxRowsBefore is the number of rows that are scanned before a section if deletes, filters or a
// sample may drop the row just before the section.
const maxRowsBefore = 128

// rowsBefore returns the number of rows that are scanned before a section, to find the request of
// the last remaining row before the section.
func rowsBefore(p *plan.Plan) int64 {
	if p.Inexact == "" {
		return 1
	}
	return maxRowsBefore
}

// begins is called before the rows of a window are collected.
func (r *permutedRun) begins(window int64) {
	r.begun++
	for _, p := range r.parts {
		p.begins(window)
	}
	if next := r.index + 1; window == r.run.Windows-1 && next < len(r.runs[r.number]) {
		r.prefetch(&r.runs[r.number][next])
	}
}

// prefetch prepares the lane's next run. It starts to build the build sides with which the run's
// first sections are joined and, if the borders of sections are known, to read the rows of these
// sections.
func (r *permutedRun) prefetch(next *plan.Run) {
	all, first := r.specs(r.sectionsOf(next, 0))
	r.lane.Expect(all)
	r.lane.PrefetchGroups(first)
	if !r.whole() {
		r.lane.Prefetch(first)
	}
}

// sectionsOf returns the sections of each part of a run, from the given window to the end of the
// run.
func (r *permutedRun) sectionsOf(run *plan.Run, window int64) [][]plan.Section {
	out := make([][]plan.Section, len(run.Parts))
	for i := range run.Parts {
		out[i] = run.Sections(i, window)
	}
	return out
}

// specs returns the specifications of all sections of some parts, and in first only the
// specifications of the first section of each part.
func (r *permutedRun) specs(parts [][]plan.Section) (all, first []joined.SectionSpec) {
	for _, sections := range parts {
		for i, section := range sections {
			spec := r.section(section)
			all = append(all, spec)
			if i == 0 {
				first = append(first, spec)
			}
		}
	}
	return all, first
}

// divided returns how many times the windows of the run have divided a request so far.
func (r *permutedRun) divided() int64 {
	divided := int64(0)
	for _, p := range r.parts {
		divided += p.soFar().divided
	}
	return divided
}

// before returns the counts of the run's rows that precede a window.
func (r *permutedRun) before(window int64) windowStart {
	sum := windowStart{window: window, counts: make([]joiner.Counts, len(r.joined.Counts()))}
	for _, p := range r.parts {
		of := p.before(window)
		sum.divided += of.divided
		joiner.AddCounts(sum.counts, of.counts)
	}
	return sum
}

// release releases the run. It is called when the run's sequence is released.
func (r *permutedRun) release() {
	for _, p := range r.parts {
		p.release()
	}
	r.joined.Release()
	if r.permuted[r.number] == r { // otherwise rewind has already dealt with its counts
		r.sequences.divided += r.divided()
		delete(r.permuted, r.number)
	}
}
