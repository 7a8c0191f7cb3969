package drift

import "math"

// Test says how unlikely a change must be to be over its limit.
type Test struct {
	// exponent is the logarithm of 1/p, where p is the probability that one comparison of equal distributions is over its limit.
	exponent float64
	// limits are the floors of series, by name; nil: each measure has its usual floor, and all measures are compared.
	limits Limits
}

// measures reports whether a measure of a series is compared.
func (t Test) measures(series string, m Measure) bool {
	if t.limits == nil {
		return true
	}
	_, ok := t.limits[series].Changes[m]
	return ok
}

// FalseAlarms is the probability that a report about equal distributions has an alarm.
const FalseAlarms = 0.001

// NewTest returns the test for a report with a number of comparisons. The probability of a false alarm is divided equally, by the
// inequality of Bonferroni; the factor 2 is for the two directions of each change.
func NewTest(comparisons int) Test {
	return Test{exponent: math.Log(2 * float64(max(comparisons, 1)) / FalseAlarms)}
}

// meanLimit returns the limit of the difference of two means of n and m independent values with a variance, all of which lie in
// an interval of the given width. Source: Bernstein's inequality, for example Boucheron, Lugosi, Massart: Concentration
// Inequalities, 2013, section 2.8.
func (t Test) meanLimit(variance, width, n, m float64) float64 {
	if min(n, m) < 1 {
		return math.Inf(1)
	}
	linear := t.exponent * width / min(n, m) / 3 //nolint:mnd // of the inequality
	return linear + math.Sqrt(linear*linear+2*t.exponent*variance*(1/n+1/m))
}

// shareLimit returns the limit of the difference of two shares, x of n and y of m rows.
func (t Test) shareLimit(x, n, y, m float64) float64 {
	pooled := (x + y + 1) / (n + m + 2) //nolint:mnd // one row more of each kind, so that no share is certain
	return t.meanLimit(pooled*(1-pooled), 1, n, m)
}

// rankLimit returns the limit of the difference between the shares of values below any number in two samples of n and m values.
// Source: Dvoretzky, Kiefer, Wolfowitz, with the constant of Massart, 1990, for each sample.
func (t Test) rankLimit(n, m float64) float64 { return math.Sqrt(t.exponent / 2 * (1/n + 1/m)) }

// indexLimit returns the limit of the population stability index of two samples of n and m values in bins. The index times
// nm/(n+m) is approximately a chi-squared variable with one degree of freedom less than bins (Yurdakul: Statistical properties of
// the population stability index, 2018), whose tail is bounded by Laurent and Massart, 2000, lemma 1.
func (t Test) indexLimit(bins int, n, m float64) float64 {
	degrees := float64(bins - 1)
	return (degrees + 2*math.Sqrt(degrees*t.exponent) + 2*t.exponent) * (1/n + 1/m)
}
