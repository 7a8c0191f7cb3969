package joined

import (
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
)

// Used is what the joins with one staging table did.
type Used struct {
	Name   string // of the dataset's entry
	Counts joiner.Counts
	Costs  buildside.Costs
}

// Used returns what the joins did so far, by staging table that is read.
func (s *Ranges) Used() []Used {
	used := make([]Used, len(s.staging))
	for i, in := range s.staging {
		used[i] = Used{Name: in.rule.Name, Counts: s.total(i), Costs: in.groups.Costs()}
	}
	return used
}

// total returns the counts of a staging input's probes over all ranges so far.
func (s *Ranges) total(number int) joiner.Counts {
	all := s.counts[number]
	for _, l := range s.lanes {
		if l.open != nil {
			all.Add(l.open.Counts()[number])
		}
	}
	return all
}

// Rewind takes back the counts of the lane's open range for the rows after a row of its
// final sequence, and returns the number of training rows to be read again. If the plan
// knows the range's rows, the range will resume at the joined batch that contains the row.
// Otherwise it will be joined again from its first row, since only the number of the
// returned rows is known. The caller releases the range afterwards.
func (l *Lane) Rewind(index int, row int64) (again int64) {
	o, ok := l.open.(*OpenRange)
	switch {
	case !ok:
		return 0
	case o.index != index: // the next range was opened only to look for a row
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

// Discard takes back the counts of the lane's open range, except those given. The caller
// releases the range afterwards.
func (l *Lane) Discard(except []joiner.Counts) {
	joiner.AddCounts(l.stream.counts, except)
	l.open = nil
}

// DiscardAll takes back all counts: no row was returned, although several ranges may
// have been read.
func (s *Ranges) DiscardAll() {
	clear(s.counts)
	for _, l := range s.lanes {
		l.open = nil
	}
}

// Restore sets the counts of the closed ranges to those before some of them. If rewound, lanes resume
// where Rewind has left them; otherwise the counts are exact up to the rows at which they resume.
func (s *Ranges) Restore(counts []joiner.Counts, rewound bool) {
	copy(s.counts, counts)
	for _, l := range s.lanes {
		if l.open = nil; !rewound {
			l.resume = nil
		}
	}
}

// split returns the row of the range from which rows must be counted again if the lane
// resumes before returned row at, and the counts of the rows before it. first is the
// first training row of the range.
func (o *OpenRange) split(first, at int64) (row int64, counts []joiner.Counts) {
	start := o.rows.From - first // the range's row at which the final sequence began
	if start+o.returned+o.last <= at {
		return start + o.returned + o.last, o.joined.Counts()
	}
	return start + o.returned, o.before
}

// minMatchFrom is the number of training rows that must have reached the joins before
// min_match is checked.
const minMatchFrom = 10_000

// checkMinMatch is Ranges.checkMinMatch for a range, or for the run that the range is a section of.
func (o *OpenRange) checkMinMatch(ended bool) error {
	switch {
	case o.run == nil:
		return o.lane.stream.checkMinMatch(o, o.rows.To-o.rows.From, ended)
	case ended:
		return nil // the run has other sections
	}
	return o.lane.stream.checkMinMatch(o.run, o.run.rows, false)
}

// checkMinMatch returns an error if a range or run of a number of rows has ended and the share
// of matched rows, over all rows so far, is below a staging table's min_match. If the plan knows
// their number, the check runs with the last batch.
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
