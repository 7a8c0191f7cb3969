package coverage

import (
	"slices"

	"github.com/penstock/penstock/loader/plan"
)

// Matches are the training rows that were looked up in a staging table, as JSON.
type Matches struct {
	Axes
	Rows    Grid `json:"rows"`
	Matched Grid `json:"matched"`
}

// Tally counts the training rows of a plan that match.
type Tally struct {
	places *places
	counts Matches
}

// NewTally returns counts of zero for the splits of a plan.
func NewTally(p *plan.Plan) *Tally {
	of := placesOf(p)
	return &Tally{of, Matches{Axes: of.Axes, Rows: of.grid(), Matched: of.grid()}}
}

// Add adds rows of a split.
func (t *Tally) Add(split int, rows, matched int64) {
	at := t.places.cell(split)
	t.counts.Rows[at.part][at.bucket] += rows
	t.counts.Matched[at.part][at.bucket] += matched
}

// Copy returns a copy of the counts, to which rows can be added without a change of the counts.
func (t *Tally) Copy() *Tally {
	out := *t
	out.counts.Rows, out.counts.Matched = t.counts.Rows.copy(), t.counts.Matched.copy()
	return &out
}

// Matches returns the counts. The caller must not call Add afterwards.
func (t *Tally) Matches() *Matches { return &t.counts }

func (g Grid) copy() Grid {
	out := slices.Clone(g)
	for i := range out {
		out[i] = slices.Clone(out[i])
	}
	return out
}
