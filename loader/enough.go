package loader

import (
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
)

// judgedFrom is how many training rows must have reached the joins before the
// share of them that matched is judged.
const judgedFrom = 10_000

// enough fails if a split has ended, and of all rows so far a staging table
// matched fewer than its min_match asks for. Where the plan knows a piece's
// rows, its end is seen with its last batch.
func (p *piece) enough(ended bool) error {
	s := p.splits
	for i, l := range s.levels {
		if l.bound.MinMatch == 0 {
			continue
		}
		here := p.joined.Counts()[i]
		if !ended && (s.plan.Inexact != "" || here.Rows < p.rows) {
			continue
		}
		all := s.total(i)
		if share := float64(all.Matched) / float64(max(1, all.Rows)); all.Rows >= judgedFrom && share < l.bound.MinMatch {
			return fault.New(fault.Invalid, "%d of %d training rows match %s: %.4f, where min_match asks for %g",
				all.Matched, all.Rows, l.rule.Name, share, l.bound.MinMatch).
				In(l.bound.Pinned.Name, "").
				WithRemedy("look for the keys that are missing (penstock verify), or lower min_match of %s", l.rule.Name)
		}
	}
	return nil
}

// total returns what a level met in all pieces so far.
func (s *splits) total(level int) joiner.Counts {
	all := s.counts[level]
	for _, p := range s.pieces {
		all.Add(p.joined.Counts()[level])
	}
	return all
}

// report returns what each level that was read met, by name.
func (s *splits) report() map[string]StagingReport {
	byName := make(map[string]StagingReport, len(s.levels))
	for i, l := range s.levels {
		byName[l.rule.Name] = l.met.report(s.total(i))
	}
	return byName
}
