package drift

import (
	"fmt"
	"math"
	"strconv"
)

// Text describes a change in a sentence, without its column and partition.
func (c Change) Text() string {
	if c.Bound {
		return c.boundText()
	}
	switch c.Measure {
	case Nulls:
		return c.shares("nulls are", "of the rows")
	case NotFinite:
		return c.shares("NaN and infinite numbers are", "of the values")
	case Zeros:
		return c.shares("zeros or empty texts are", "of the values")
	case MatchRate:
		return c.shares("rows with a match are", "of the rows")
	case Top:
		if c.Of == "" {
			return c.shares("a frequent value is", "of the values")
		}
		return c.shares("the value "+c.Of+" is", "of the values")
	case Form:
		return c.shares("texts with "+c.Of+" are", "of all texts that are not empty")
	case Unit:
		return fmt.Sprintf("the median size is %s, and was %s: %s times as large%s (limit %s times)", c.number(*c.Value), c.number(*c.Base), number(c.Change), factorText(c.Change), number(c.Limit))
	case Mean:
		return fmt.Sprintf("the mean, cut at quantiles of the base, is %s, and was %s: a change by %s standard deviations (limit %s)", c.number(*c.Value), c.number(*c.Base), signed(c.Change), number(c.Limit))
	case Quantile:
		return fmt.Sprintf("the quantile %s is %s, and was %s: a change by %s of the spread (limit %s)", c.Of, c.number(*c.Value), c.number(*c.Base), signed(c.Change), number(c.Limit))
	case Shift:
		return c.shiftText()
	case Index:
		return fmt.Sprintf("the population stability index is %s (limit %s)", number(c.Change), number(c.Limit))
	case Min, Max: // only bounds
	}
	return string(c.Measure)
}

// boundText describes a value beyond its bound.
func (c Change) boundText() string {
	switch c.Measure {
	case Nulls:
		return fmt.Sprintf("nulls are %s of the rows (limit %s)", percent(*c.Value), percent(c.Limit))
	case NotFinite:
		return fmt.Sprintf("NaN and infinite numbers are %s of the values (limit %s)", percent(*c.Value), percent(c.Limit))
	case Zeros:
		return fmt.Sprintf("zeros or empty texts are %s of the values (limit %s)", percent(*c.Value), percent(c.Limit))
	case Min:
		return fmt.Sprintf("the least number is %s (limit %s)", exact(*c.Value), exact(c.Limit))
	case Max:
		return fmt.Sprintf("the greatest number is %s (limit %s)", exact(*c.Value), exact(c.Limit))
	case Unit, Form, Top, Mean, Quantile, Index, MatchRate, Shift:
	}
	return string(c.Measure)
}

// exact returns all digits of a number, which may differ from its limit by the last of them.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func (c Change) shares(what, of string) string {
	return fmt.Sprintf("%s %s %s, and were %s (limit %s)", what, percent(*c.Value), of, percent(*c.Base), percent(c.Limit))
}

// number returns a value of the change: a duration, or a number with few digits.
func (c Change) number(v float64) string {
	if c.InSeconds {
		return Seconds(v)
	}
	return number(v)
}

// number returns a number with few digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) } //nolint:mnd // digits, bits

func signed(v float64) string {
	if v > 0 {
		return "+" + number(v)
	}
	return number(v)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'g', 3, 64) + "%" } //nolint:mnd // percent, digits, bits

// factorText names a factor between two usual units, if the ratio is nearly one.
func factorText(ratio float64) string {
	const near = 0.05
	for _, f := range []float64{60, 100, 1000, 3600, 86400, 1e6, 1e9} { //nolint:mnd // factors of units of time, money and size
		switch {
		case math.Abs(ratio/f-1) < near:
			return fmt.Sprintf(", about × %.0f, as if the unit had changed", f)
		case math.Abs(ratio*f-1) < near:
			return fmt.Sprintf(", about ÷ %.0f, as if the unit had changed", f)
		}
	}
	return ""
}
