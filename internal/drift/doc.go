// Package drift compares the values of a column with those of a base: another snapshot, or another day.
//
// Each [Measure] has a limit, which is the larger of two numbers. The first is a floor: smaller changes do not matter in practice.
// The second follows from the numbers of rows: if the rows of both sides are independent draws from one distribution, the measure
// is over it with a small probability. [Test] divides this probability by the number of comparisons, so that a report of a
// thousand comparisons is as reliable as a report of one.
//
// The limits hold for all distributions, also those without a mean, because the measures are bounded: shares of rows, ranks, and
// means of values that are cut at quantiles. Each function of limits.go names its source.
//
// The package is pure: it maps profiles to changes.
package drift
