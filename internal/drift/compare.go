package drift

import (
	"math"
	"slices"
	"sort"
	"strconv"

	"github.com/penstock/penstock/internal/stats"
)

// PerProfile is the maximum number of comparisons of a profile, by which callers count those of a report.
const PerProfile = 3 + 2*maxTop + 2*maxForms + 4

// maxTop is the maximum number of frequent values of each side.
const maxTop = 10

// leastShare is the least share of the sample that a frequent value has.
const leastShare = 0.01

// Compare compares the values of a profile with those of the base, which is of the same type. The changes have no partition.
func Compare(base, of *stats.Profile, t Test) []Change {
	c := comparing{base: base, of: of, Test: t}
	c.shares()
	switch base.Scale {
	case stats.Numbers:
		c.top()
		c.numbers()
	case stats.Categories:
		c.forms()
		c.top()
		c.categories()
	case stats.Times:
		c.shift()
	case stats.Unscaled:
	}
	return c.out
}

// Matched counts training rows, and those of them that match.
type Matched struct {
	Rows, Matched int64
	Effect        float64 // the design effect of the rows, as in stats.Profile
}

func (m Matched) portion() portion { return portionOf(m.Matched, m.Rows, 1/max(m.Effect, 1)) }

// Matches compares how many training rows match a staging entry.
func Matches(entry string, base, of Matched, t Test) []Change {
	c := comparing{base: &stats.Profile{Name: entry}, Test: t}
	c.share(MatchRate, "", base.portion(), of.portion())
	for i := range c.out {
		c.out[i].Entry = entry
	}
	return c.out
}

// comparing is one call of Compare.
type comparing struct {
	Test
	base, of *stats.Profile
	out      []Change
}

// add adds a change, which is an alarm if it is over its limit.
func (c *comparing) add(out Change) {
	if math.IsInf(out.Limit, 0) || math.IsNaN(out.Change) || math.IsInf(out.Change, 0) {
		return // there are too few rows to tell
	}
	if !c.measures(c.base.Name, out.Measure) {
		return
	}
	out.Column, out.Alarm = c.base.Name, out.beyond()
	c.out = append(c.out, out)
}

// floor returns the floor of a measure, which is byDefault if the test has no limits.
func (c *comparing) floor(m Measure, byDefault float64) float64 {
	if c.limits == nil {
		return byDefault
	}
	return c.limits[c.base.Name].Changes[m]
}

// portion is a number of all values, of which a share is independent.
type portion struct{ part, all, independent float64 }

func portionOf(part, all int64, independent float64) portion {
	return portion{float64(part), float64(all), independent}
}

// share compares two shares.
func (c *comparing) share(measure Measure, of string, base, value portion) {
	floor := shareFloor
	if measure == MatchRate { // as for the nulls of rows without a match
		floor = func(x float64) float64 { return min(shareFloor(x), shareFloor(1-x)) }
	}
	if change, ok := c.difference(measure, of, base, value, floor); ok {
		c.add(change)
	}
}

// difference returns the difference of two shares; false if one side has no values.
func (c *comparing) difference(measure Measure, of string, base, value portion, floor func(base float64) float64) (Change, bool) {
	if base.all == 0 || value.all == 0 {
		return Change{}, false
	}
	x, y := base.part/base.all, value.part/value.all
	n, m := base.independent, value.independent
	limit := c.shareLimit(base.part*n, base.all*n, value.part*m, value.all*m)
	return Change{Measure: measure, Of: of, Base: &x, Value: &y, Change: y - x, Limit: max(limit, c.floor(measure, floor(x)))}, true
}

// count compares the shares of a part of all values.
func (c *comparing) count(measure Measure, count func(*stats.Profile) (part, all int64)) {
	x, n := count(c.base)
	y, m := count(c.of)
	c.share(measure, "", portionOf(x, n, c.base.IndependentRows()), portionOf(y, m, c.of.IndependentRows()))
}

// shares compares the counts of all rows.
func (c *comparing) shares() {
	c.count(Nulls, func(p *stats.Profile) (int64, int64) { return p.Nulls, p.Rows })
	if c.base.Scale == stats.Numbers {
		c.count(NotFinite, func(p *stats.Profile) (int64, int64) { return p.NotFinite, p.Values })
	}
	if c.base.HasZeros {
		c.count(Zeros, func(p *stats.Profile) (int64, int64) { return p.Zeros, p.Values })
	}
}

// top compares the shares of values that are frequent on one side at least.
func (c *comparing) top() {
	n, m := c.base.Sampled(), c.of.Sampled()
	all := c.base.Frequent(leastShare)
	for _, f := range c.of.Frequent(leastShare) {
		if !slices.ContainsFunc(all, func(other stats.Frequent) bool { return other.Key == f.Key }) {
			all = append(all, f)
		}
	}
	for _, f := range all {
		if !c.base.IsZero(f.Key) {
			c.share(Top, f.Value.String(), portionOf(c.base.Count(f.Key), n, c.base.IndependentSample()), portionOf(c.of.Count(f.Key), m, c.of.IndependentSample()))
		}
	}
}

// independent returns the numbers of independent values among n and m values.
func (c *comparing) independent(n, m int) (float64, float64) {
	return float64(n) * c.base.IndependentSample(), float64(m) * c.of.IndependentSample()
}

// numbers compares the distributions of numbers.
func (c *comparing) numbers() {
	base, of := c.base.Sample, c.of.Sample
	if len(base) == 0 || len(of) == 0 {
		return
	}
	c.unit(base, of)
	c.mean(base, of)
	c.quantile(base, of)
	edges := binEdges(base)
	c.index(counts(base, edges), counts(of, edges))
}

// rank returns the value of sorted numbers at a share of them, and false beyond the first and last.
func rank(sorted []float64, share float64) (float64, bool) {
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	inside := min(max(i, 0), len(sorted)-1)
	return sorted[inside], i == inside
}

// at returns a quantile by the nearest rank.
func at(sorted []float64, share float64) float64 {
	v, _ := rank(sorted, share)
	return v
}

// unit compares the medians of the sizes of numbers that are not 0.
func (c *comparing) unit(base, of []float64) {
	x, y := sizes(base), sizes(of)
	if len(x) == 0 || len(y) == 0 {
		return
	}
	reach := c.rankLimit(c.independent(len(x), len(y)))
	low, okLow := rank(x, median-reach)
	high, okHigh := rank(x, median+reach)
	from, to := at(x, median), at(y, median)
	if !okLow || !okHigh {
		return
	}
	c.add(Change{Measure: Unit, Base: &from, Value: &to, Change: to / from, Limit: max(c.floor(Unit, unitFloor), rounded*from/low, rounded*high/from)})
}

// rounded is larger than the error of a division, so that a value at the end of an interval is in it.
const rounded = 1 + 1e-9

// sizes returns the absolute values of numbers that are not 0, in ascending order.
func sizes(sorted []float64) []float64 {
	below, _ := slices.BinarySearch(sorted, 0)
	above := below + sort.Search(len(sorted)-below, func(i int) bool { return sorted[below+i] > 0 })
	out := make([]float64, 0, len(sorted)-above+below)
	for negative, positive := below-1, above; negative >= 0 || positive < len(sorted); {
		if positive == len(sorted) || negative >= 0 && -sorted[negative] <= sorted[positive] {
			out = append(out, -sorted[negative])
			negative--
			continue
		}
		out = append(out, sorted[positive])
		positive++
	}
	return out
}

// The quantiles that the measures use.
const (
	median     = 0.5
	lowCut     = 0.01
	highCut    = 0.99
	lowSpread  = 0.05
	highSpread = 0.95
)

// mean compares the means. Numbers below the quantile 0.01 and above the quantile 0.99 of the base count as these quantiles, so that
// a few large numbers do not decide.
func (c *comparing) mean(base, of []float64) {
	low, high := at(base, lowCut), at(base, highCut)
	n, m := c.independent(len(base), len(of))
	a, b := cut(base, low, high), cut(of, low, high)
	deviation := math.Sqrt(a.variance)
	if !(deviation > 0) { // NaN, too
		return
	}
	pooled := (n*a.variance + m*b.variance) / (n + m)
	limit := c.meanLimit(pooled/a.variance, (high-low)/deviation, n, m)
	c.add(Change{Measure: Mean, Base: &a.mean, Value: &b.mean, Change: (b.mean - a.mean) / deviation, Limit: max(limit, c.floor(Mean, meanFloor))})
}

// moments are the mean and the variance of numbers.
type moments struct{ mean, variance float64 }

// cut returns the moments of numbers that are cut at two of them.
func cut(values []float64, low, high float64) (out moments) {
	scale := max(math.Abs(low), math.Abs(high), math.SmallestNonzeroFloat64) // so that squares are finite
	sum, squares, n := 0.0, 0.0, float64(len(values))
	shift := min(max(values[len(values)/2], low), high)
	for _, v := range values {
		d := (min(max(v, low), high) - shift) / scale
		sum, squares = sum+d, squares+d*d
	}
	out.mean = shift + sum/n*scale
	out.variance = max(0, squares/n-sum/n*sum/n) * scale * scale
	return out
}

// quantile compares the quantiles, of which the one that is farthest beyond its limit is added.
func (c *comparing) quantile(base, of []float64) {
	spread := at(base, highSpread) - at(base, lowSpread)
	if spread == 0 {
		spread = at(base, highCut) - at(base, lowCut)
	}
	if !(spread > 0) || math.IsInf(spread, 0) {
		return
	}
	reach := c.rankLimit(c.independent(len(base), len(of)))
	worst := Change{Limit: 1}
	for _, q := range stats.Quantiles {
		from, to := at(base, q), at(of, q)
		end, ok := rank(base, q+math.Copysign(reach, to-from))
		change := (to - from) / spread
		limit := max(c.floor(Quantile, quantileFloor), rounded*math.Abs(end-from)/spread)
		if one := (Change{Change: change, Limit: limit}); ok && (worst.Base == nil || one.Excess() > worst.Excess()) {
			worst = Change{Measure: Quantile, Of: strconv.FormatFloat(q, 'g', -1, 64), Base: &from, Value: &to, Change: change, Limit: limit}
		}
	}
	if worst.Base != nil {
		c.add(worst)
	}
}

// bins is the maximum number of bins of the index.
const bins = 10

// binEdges returns the upper ends of bins with about equally many of the numbers, without those of the last bin.
func binEdges(base []float64) (edges []float64) {
	for i := 1; i < bins; i++ {
		if v := at(base, float64(i)/bins); (len(edges) == 0 || v > edges[len(edges)-1]) && v < base[len(base)-1] {
			edges = append(edges, v)
		}
	}
	return edges
}

// counts returns how many of sorted numbers are in each bin.
func counts(sorted, edges []float64) []float64 {
	out, from := make([]float64, 0, len(edges)+1), 0
	for _, e := range edges {
		to := sort.Search(len(sorted), func(i int) bool { return sorted[i] > e })
		out, from = append(out, float64(to-from)), to
	}
	return append(out, float64(len(sorted)-from))
}

// categories compares the shares of frequent values and of all others together.
func (c *comparing) categories() {
	var base, of []float64
	restBase, restOf := float64(c.base.Sampled()), float64(c.of.Sampled())
	for _, f := range c.base.Frequent(leastShare) {
		x, y := float64(f.Count), float64(c.of.Count(f.Key))
		base, of = append(base, x), append(of, y)
		restBase, restOf = restBase-x, restOf-y
	}
	if restBase > 0 || restOf > 0 {
		base, of = append(base, restBase), append(of, restOf)
	}
	c.index(base, of)
}

// emptyBin is added to the number of values of each bin, so that the index of an empty bin is finite.
const emptyBin = 0.5

// index compares the numbers of values in bins.
func (c *comparing) index(base, of []float64) {
	n, m := 0.0, 0.0
	for i := range base {
		n, m = n+base[i], m+of[i]
	}
	if len(base) < 2 || n == 0 || m == 0 { //nolint:mnd // one bin has all values
		return
	}
	index, more := 0.0, emptyBin*float64(len(base))
	for i := range base {
		p, q := (base[i]+emptyBin)/(n+more), (of[i]+emptyBin)/(m+more)
		index += (q - p) * math.Log(q/p)
	}
	limit := c.indexLimit(len(base), n*c.base.IndependentSample(), m*c.of.IndependentSample())
	c.add(Change{Measure: Index, Change: index, Limit: max(limit, c.floor(Index, indexFloor))})
}
