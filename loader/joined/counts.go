package joined

import (
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
)

// Used describes what the joins with one staging table matched and cost.
type Used struct {
	Name   string // the name of the dataset's entry
	Counts joiner.Counts
	Costs  buildside.Costs
}

// Used returns what the joins matched and cost so far, for each staging table that is read.
func (s *Ranges) Used() []Used {
	used := make([]Used, len(s.staging))
	for i, in := range s.staging {
		used[i] = Used{Name: in.rule.Name, Counts: s.total(i), Costs: in.groups.Costs()}
	}
	return used
}

// total returns the counts of the joins with one staging input, over all ranges so far.
func (s *Ranges) total(number int) joiner.Counts {
	all := s.counts[number]
	for _, l := range s.lanes {
		if l.open != nil {
			all.Add(l.open.Counts()[number])
		}
	}
	return all
}

// Rewind prepares the lane to be read again from a row of the final sequence of its open range. It
// subtracts the counts of the rows that will be read again, and returns the number of these
// training rows. If the plan knows the range's rows, the range will resume at the joined batch that
// contains the row. Otherwise the range will be joined again from its first row, since it is
// unknown which training rows the returned rows came from. The caller releases the range
// afterwards.
func (l *Lane) Rewind(index int, row int64) (again int64) {
	o, ok := l.open.(*OpenRange)
	switch {
	case !ok:
		return 0
	case o.index != index: // the open range is a later one, which was opened only to find out whether it has a row
		l.Discard(nil)
		return 0
	case l.stream.plan.Inexact != "":
		l.Discard(nil)
		return row
	}
	from, counts := o.split(l.Ranges[index].From, row)
	l.Discard(counts)
	l.resume = &resumption{index: index, row: from}
	return row - from
}

// Discard drops the counts of the lane's open range, and keeps only the given counts for it. The
// caller releases the range afterwards.
func (l *Lane) Discard(except []joiner.Counts) {
	joiner.AddCounts(l.stream.counts, except)
	l.open = nil
}

// DiscardAll drops all counts. It is called if no row was returned, although several ranges may
// have been read.
func (s *Ranges) DiscardAll() {
	clear(s.counts)
	for _, l := range s.lanes {
		l.open = nil
	}
}

// Restore sets the counts of the closed ranges to earlier counts. If rewound is set, the lanes
// resume at the rows that Rewind has chosen. Otherwise the given counts are exact up to the rows at
// which the lanes resume.
func (s *Ranges) Restore(counts []joiner.Counts, rewound bool) {
	copy(s.counts, counts)
	for _, l := range s.lanes {
		if l.open = nil; !rewound {
			l.resume = nil
		}
	}
}

// split returns the row of the range from which rows must be counted again if the lane resumes at
// the returned row number at, and the counts of the rows before the result. first is the first
// training row of the range.
func (o *OpenRange) split(first, at int64) (row int64, counts []joiner.Counts) {
	start := o.rows.From - first // the row of the range at which the final sequence was opened
	if start+o.returned+o.last <= at {
		return start + o.returned + o.last, o.joined.Counts()
	}
	return start + o.returned, o.before
}

// minMatchFrom is the number of training rows that must have been joined before min_match is
// checked.
const minMatchFrom = 10_000

// checkMinMatch calls Ranges.checkMinMatch for the range, or, if the range is a section of a run,
// for the run.
func (o *OpenRange) checkMinMatch(ended bool) error {
	switch {
	case o.run == nil:
		return o.lane.stream.checkMinMatch(o, o.rows.To-o.rows.From, ended)
	case ended:
		return nil // the run has other sections
	}
	return o.lane.stream.checkMinMatch(o.run, o.run.rows, false)
}

// checkMinMatch returns an error if a range or run has ended, and the share of matched rows among
// all rows so far is below the min_match of a staging table. rows is the number of training rows of
// the range or run. If the plan is exact, the check already runs when the last batch is joined.
func (s *Ranges) checkMinMatch(here counted, rows int64, ended bool) error {
	for i, in := range s.staging {
		if in.bound.MinMatch == 0 || s.spec.CountOnly {
			continue
		}
		if !ended && (s.plan.Inexact != "" || here.Counts()[i].Rows < rows) {
			continue
		}
		if err := s.judge(i, s.total(i)); err != nil {
			return err
		}
	}
	return nil
}
