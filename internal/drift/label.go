package drift

import (
	"slices"

	"github.com/penstock/penstock/internal/stats"
)

// riseFloor is the least rise of an area under a curve that matters.
const riseFloor = 0.05

// Labels compares how well columns predict a label with how well those of a base do, and sets the results in of. Either may be nil. Only areas
// under curves have limits.
//
// The area is a mean over all pairs of a row of each label. It is bounded as a mean of as many independent values as the rarer label
// has rows. Source: Hoeffding: Probability inequalities for sums of bounded random variables, 1963, section 5b, with the inequality of
// Bernstein in place of his.
func Labels(base, of *stats.Label) {
	if base == nil || of == nil || base.Measure != of.Measure {
		return
	}
	t := NewTest(len(of.Columns))
	for i := range of.Columns {
		c := &of.Columns[i]
		at := slices.IndexFunc(base.Columns, func(b stats.Relation) bool { return b.Column == c.Column })
		if at < 0 {
			continue
		}
		b := base.Columns[at]
		c.Base = &b.Value
		if of.Measure != stats.AUC {
			continue
		}
		n, m := float64(b.Rarer), float64(c.Rarer)
		pooled := (b.Value*n + c.Value*m + 1) / (n + m + 2) //nolint:mnd // one row more of each kind, so that no area is certain
		c.RiseLimit = max(riseFloor, t.meanLimit(pooled*(1-pooled), 1, n, m))
		c.Risen = of.Strength(c.Value)-base.Strength(b.Value) > c.RiseLimit
	}
}
