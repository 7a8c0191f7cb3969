package joined

import (
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/buildside"
)

// ClosedCounts returns the counts of the closed ranges, by staging table that is read.
func (s *Ranges) ClosedCounts() []joiner.Counts { return slices.Clone(s.counts) }

// CountsTo returns the counts of the lane's open range for the rows before a row of its final
// sequence. It also returns the number of training rows that a stream must read again if it begins
// at that row. If the plan knows the range's rows, the counts are exact. Otherwise they are nil,
// since a stream that begins at the row joins the range from its first row. CountsTo changes
// nothing.
func (l *Lane) CountsTo(index int, row int64) (counts []joiner.Counts, again int64) {
	o, ok := l.open.(*OpenRange)
	switch {
	case !ok || o.index != index:
		return nil, 0
	case l.stream.plan.Inexact != "":
		return nil, row
	}
	from, _ := o.split(l.Ranges[index].From, row)
	start := o.rows.From - l.Ranges[index].From + o.returned // the range's row at which the joined batch begins
	if row >= start+o.last {
		return o.joined.Counts(), 0
	}
	return o.joined.CountsBefore(int(row - start)), row - from
}

// Tables returns the names of the staging tables that are read.
func (s *Ranges) Tables() []string {
	names := make([]string, len(s.staging))
	for i, in := range s.staging {
		names[i] = in.rule.Name
	}
	return names
}

// Judge is called at the end of each range, for each staging table that has min_match, with the
// counts of all rows so far. If it returns an error, the range fails.
type Judge func(table int, all joiner.Counts) error

// judge calls the spec's Judge, or CheckMinMatch if the spec has no Judge.
func (s *Ranges) judge(table int, all joiner.Counts) error {
	if s.spec.Judge != nil {
		return s.spec.Judge(table, all)
	}
	return s.CheckMinMatch(table, all)
}

// CheckMinMatch returns an error if the share of matched rows is below a staging table's min_match.
// table is an index among the staging tables that are read.
func (s *Ranges) CheckMinMatch(table int, all joiner.Counts) error {
	in := s.staging[table]
	share := float64(all.Matched) / float64(max(1, all.Rows))
	if all.Rows < minMatchFrom || share >= in.bound.MinMatch {
		return nil
	}
	return fault.New(fault.Invalid, "%d of %d training rows match %s: %.4f, where min_match asks for %g",
		all.Matched, all.Rows, in.rule.Name, share, in.bound.MinMatch).
		In(in.bound.Pinned.Name, "").
		WithRemedy("look for the keys that are missing (penstock verify), or lower min_match of %s", in.rule.Name)
}

// Take adds counts and costs of another Ranges that joined the rows of this stream, perhaps with
// more columns. If own is set, the costs count as this stream's own costs, otherwise as shared
// costs. All ranges of s must be closed.
func (s *Ranges) Take(counts []joiner.Counts, costs []buildside.Costs, own bool) {
	for i, in := range s.staging {
		if counts[i].Rows == 0 {
			costs[i].Strategy = "" // no row was joined for this stream
		}
		in.groups.Take(costs[i], own)
		if !in.spec.HasDefaults() {
			counts[i].Defaulted = 0 // the defaults are of columns that this stream does not read
		}
	}
	joiner.AddCounts(s.counts, counts)
}
