package drift

import (
	"cmp"
	"math"
	"slices"
)

// Alarms returns the changes that are alarms, without those that are part of the whole: those of one column and partition together, in the order of Measures, and the largest
// first. If the match rate of an entry is an alarm, the alarms of its columns follow it, and those of nulls that it explains have it
// as their cause.
func Alarms(changes []Change) []Change {
	var out []Change
	caused := map[string]bool{} // the entries whose match rate is an alarm
	for _, c := range changes {
		if c.Alarm && !c.PartOfWhole {
			out = append(out, c)
			caused[c.Entry] = caused[c.Entry] || c.Entry != "" && c.Measure == MatchRate
		}
	}
	explain(out, changes, caused)
	type place struct{ entry, column, partition string }
	of := func(c Change) place { return place{c.Entry, c.Column, c.Partition} }
	group := func(c Change) place {
		if caused[c.Entry] {
			return place{entry: c.Entry}
		}
		return of(c)
	}
	first := func(c Change) int { // the cause is before its effects
		if caused[c.Entry] && c.Measure == MatchRate {
			return 0
		}
		return 1
	}
	worst, inGroup := map[place]float64{}, map[place]float64{}
	for _, c := range out {
		worst[of(c)] = max(worst[of(c)], c.Excess())
		inGroup[group(c)] = max(inGroup[group(c)], c.Excess())
	}
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(inGroup[group(b)], inGroup[group(a)]), cmp.Compare(group(a).entry, group(b).entry), cmp.Compare(first(a), first(b)),
			cmp.Compare(worst[of(b)], worst[of(a)]), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(slices.Index(Measures(), a.Measure), slices.Index(Measures(), b.Measure)))
	})
	return out
}

// explain sets the cause of alarms of nulls: of entries whose match rate is an alarm, in partitions in which the share of nulls changed
// by at most as much as the match rate.
func explain(alarms, changes []Change, caused map[string]bool) {
	type place struct{ entry, partition string }
	rates := map[place]Change{}
	for _, c := range changes {
		if c.Measure == MatchRate && caused[c.Entry] {
			rates[place{c.Entry, c.Partition}] = c
		}
	}
	for i := range alarms {
		a := &alarms[i]
		if rate, ok := rates[place{a.Entry, a.Partition}]; ok && a.Measure == Nulls && rate.explains(*a) {
			a.Cause = MatchRate
		}
	}
}

// explains reports whether a change of a match rate explains a change of nulls: a row that no longer matches has nulls.
func (c Change) explains(nulls Change) bool {
	const slack = 0.001 // as the least floor
	return c.Change*nulls.Change < 0 && math.Abs(nulls.Change) <= math.Abs(c.Change)+slack
}
