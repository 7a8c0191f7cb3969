package drift

// Measure is a way to compare two columns.
type Measure string

// The measures. A Change has their values for the base and for the column, and the change.
const (
	Nulls     Measure = "nulls"      // the share of nulls; the change is the difference
	NotFinite Measure = "not_finite" // the share of NaN and infinite numbers; the difference
	Zeros     Measure = "zeros"      // the share of zeros or empty texts; the difference
	Top       Measure = "top"        // the share of a frequent value; the difference
	Form      Measure = "form"       // the share of texts that are written in one form; the difference
	Unit      Measure = "unit"       // the median of the sizes of numbers that are not 0; the ratio
	Mean      Measure = "mean"       // the mean of numbers, cut at quantiles of the base; the difference in standard deviations
	Quantile  Measure = "quantile"   // a quantile; the difference as a share of the base's spread
	Index     Measure = "psi"        // the population stability index; it has no values
	MatchRate Measure = "match_rate" // the share of training rows with a match; the difference
	Min       Measure = "min"        // the least finite number; only a bound
	Max       Measure = "max"        // the greatest finite number; only a bound
	Shift     Measure = "shift"      // how much later the times of the day are, in seconds; it has no values
)

// Measures returns all measures of changes. If several measures of a column are over their limits, the first of them says most about
// the cause.
func Measures() []Measure {
	return []Measure{MatchRate, Shift, Nulls, NotFinite, Unit, Zeros, Top, Form, Mean, Quantile, Index}
}

// Floors of limits: smaller changes are no alarms, however many rows there are.
const (
	meanFloor     = 0.05
	quantileFloor = 0.1
	indexFloor    = 0.1
	unitFloor     = 1.5
	shiftFloor    = 1200 // seconds: a little more than the bins of times of the day
)

// shareFloor returns the floor for a share: half of the share, but at least 0.1 % and at most 5 % of the rows.
func shareFloor(base float64) float64 {
	const smallest, largest, part = 0.001, 0.05, 2
	return min(max(base/part, smallest), largest)
}

// Change is the result of one comparison, as JSON.
type Change struct {
	Column string `json:"column"`
	// Entry is the staging entry of a dataset that has the column; "" for other columns.
	Entry string `json:"entry,omitempty"`
	// Partition is the part of the table's rows that was compared; "" stands for all rows.
	Partition string  `json:"partition,omitempty"`
	Measure   Measure `json:"measure"`
	// Of is the frequent value of the measure top, the form of the measure form, the quantile of the measure quantile, or OfMatches.
	Of     string   `json:"of,omitempty"`
	Base   *float64 `json:"base,omitempty"`
	Value  *float64 `json:"value,omitempty"`
	Change float64  `json:"change"`
	// InSeconds is true if base, value and change of a unit, mean, quantile or shift are seconds: those of ages and times.
	InSeconds bool `json:"in_seconds,omitempty"`
	// Limit is positive. Limits of Unit are ratios above 1.
	Limit float64 `json:"limit"`
	Alarm bool    `json:"alarm"`
	// PartOfWhole is true for an alarm of a partition that most partitions and all rows have, too. Alarms does not return it.
	PartOfWhole bool `json:"part_of_whole,omitempty"`
	// Bound reports whether Limit is the bound of the value itself. Then there is no base, and Change is the value.
	Bound bool `json:"bound,omitempty"`
	// Cause is MatchRate if the alarm is one of nulls that the change of the entry's match rate explains. Alarms sets it.
	Cause Measure `json:"cause,omitempty"`
}

// beyond reports whether the change is over its limit.
func (c Change) beyond() bool { return c.Size() > c.Limit }

// Excess returns how far the change is beyond its limit: 1 is at the limit. The excess of a bound is 1.
func (c Change) Excess() float64 {
	if c.Bound { // a bound may be 0
		return 1
	}
	return c.Size() / c.Limit
}

// Size returns the size of the change without its direction.
func (c Change) Size() float64 {
	if c.Measure == Unit && c.Change < 1 {
		return 1 / c.Change
	}
	if c.Change < 0 {
		return -c.Change
	}
	return c.Change
}
