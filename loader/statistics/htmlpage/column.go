package htmlpage

import (
	"cmp"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/internal/svg"
)

// newColumn describes a series of values, given the names of its quantiles.
func newColumn(id string, s stats.Summary, quantiles []float64) column {
	c := column{
		ID: id, Name: svg.Printable(s.Name, maxName), Type: svg.Printable(s.Type, maxCell), Nulls: share(s.Nulls, s.Rows), Distinct: distinct(s),
		Notes: notes(s), Facts: facts(s, quantiles),
	}
	c.Min, c.Max, c.Mean = c.cell(s.Min), c.cell(s.Max), c.cell(s.Mean)
	for i := range quantiles {
		if shown(i, len(quantiles)) {
			f := fact{Minor: minor(i, len(quantiles))}
			if i < len(s.Quantiles) {
				f.Value = c.cell(&s.Quantiles[i])
			}
			c.Shown = append(c.Shown, f)
		}
	}
	c.draw(s)
	return c
}

// draw sets the pictures of a column.
func (c *column) draw(s stats.Summary) {
	if h := s.Histogram; h != nil {
		from, to := limits(h)
		c.Sparkline = inline(svg.Sparkline(fmt.Sprintf("%s values from %s to %s", c.Name, from, to), h.Counts))
		c.Pictures = append(c.Pictures, picture{
			Caption: histogramText(h),
			Picture: inline(svg.Histogram{Title: "Histogram of " + c.Name, Bins: bins(h), From: from, To: to}.Draw()),
		})
	}
	if len(s.Top) > 0 {
		shares := svg.Shares{Title: "Most frequent values of " + c.Name}
		for _, t := range s.Top {
			shares.Of = append(shares.Of, svg.Share{Name: cmp.Or(value(&t.Value), "(empty)"), Of: t.Share})
		}
		c.Pictures = append(c.Pictures, picture{Caption: "Most frequent values", Picture: inline(shares.Draw())})
		if c.Sparkline == "" {
			c.Sparkline = inline(sparkOfShares(c.Name, s.Top))
		}
	}
}

// limits returns the limits of the bins of a histogram.
func limits(h *stats.Histogram) (from, to string) {
	return svg.Printable(h.Edges[0].Short(), maxCell), svg.Printable(h.Edges[len(h.Edges)-1].Short(), maxCell)
}

// bins returns the bins of a histogram.
func bins(h *stats.Histogram) svg.Bins {
	return svg.Bins{Counts: h.Counts, Below: h.Below, Above: h.Above}
}

// sparkOfShares draws the shares of frequent values as bars.
func sparkOfShares(name string, top []stats.Top) *svg.Canvas {
	counts := make([]int64, len(top))
	for i, t := range top {
		counts[i] = t.Count
	}
	return svg.Sparkline("The most frequent values of "+name, counts)
}

// histogramText says which values a histogram shows.
func histogramText(h *stats.Histogram) string {
	n := h.Below + h.Above
	for _, v := range h.Counts {
		n += v
	}
	text := "Histogram of " + svg.Count(n) + " values"
	switch {
	case h.Below > 0 && h.Above > 0:
		text += fmt.Sprintf(", of which %s are smaller and %s larger than its limits", svg.Count(h.Below), svg.Count(h.Above))
	case h.Below > 0:
		text += fmt.Sprintf(", of which %s are smaller than its limits", svg.Count(h.Below))
	case h.Above > 0:
		text += fmt.Sprintf(", of which %s are larger than its limits", svg.Count(h.Above))
	}
	return text
}

// inline returns a chart as part of the page.
func inline(c *svg.Canvas) template.HTML {
	return template.HTML(c.Inline()) //nolint:gosec // package svg escapes all texts
}

// facts returns the named values of a column that has them.
func facts(s stats.Summary, quantiles []float64) []fact {
	var out []fact
	count := func(name string, n int64) {
		if n > 0 {
			out = append(out, fact{Name: name, Value: svg.Count(n)})
		}
	}
	some := func(name string, v *stats.Value) {
		if v != nil {
			text := number(v)
			if s.Empty != nil && v != s.MeanBytes { // a text, even if it looks like a number
				text = value(v)
			}
			out = append(out, fact{Name: name, Value: text})
		}
	}
	count("Rows", s.Rows)
	if s.Nulls > 0 {
		out = append(out, fact{Name: "Nulls", Value: svg.Count(s.Nulls) + " (" + share(s.Nulls, s.Rows) + ")"})
	}
	out = append(out, fact{Name: "Values", Value: svg.Count(s.Values)})
	if s.Sampled != s.Values {
		count("Values in the sample", s.Sampled)
	}
	if text := distinct(s); text != "" {
		out = append(out, fact{Name: "Distinct", Value: text})
	}
	count("NaN", s.NaN)
	count("Infinite", s.Infinite)
	for _, of := range []struct {
		name string
		n    *int64
	}{{"Zeros", s.Zeros}, {"Empty", s.Empty}} {
		if of.n != nil {
			out = append(out, fact{Name: of.name, Value: strings.TrimSpace(svg.Count(*of.n) + " " + inBrackets(share(*of.n, s.Values)))})
		}
	}
	some("Bytes on average", s.MeanBytes)
	some("Minimum", s.Min)
	for i := range min(len(s.Quantiles), len(quantiles)) {
		some("Quantile "+quantileName(quantiles[i]), &s.Quantiles[i])
	}
	some("Maximum", s.Max)
	some("Mean", s.Mean)
	some("Deviation", s.Deviation)
	return out
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// distinct returns the number of distinct values, after ~ if it is an estimate.
func distinct(s stats.Summary) string {
	switch {
	case s.Distinct == nil:
		return ""
	case s.DistinctExact:
		return svg.Count(*s.Distinct)
	default:
		return "~" + svg.Count(*s.Distinct)
	}
}

// notes says in short which shares of the values are unusual.
func notes(s stats.Summary) string {
	var out []string
	add := func(n int64, name string) {
		if n > 0 {
			out = append(out, share(n, s.Values)+" "+name)
		}
	}
	add(s.NaN, "NaN")
	add(s.Infinite, "infinite")
	if s.Zeros != nil {
		add(*s.Zeros, "zero")
	}
	if s.Empty != nil {
		add(*s.Empty, "empty")
	}
	return strings.Join(out, ", ")
}

// share returns a part of a number in percent; "" for none.
func share(n, of int64) string {
	if n == 0 {
		return ""
	}
	return svg.Percent(float64(n) / float64(of))
}

// value returns a value as printable text.
func value(v *stats.Value) string { return svg.Printable(v.String(), maxName) }

// number returns a number as text: integers have all digits, and others up to eight.
func number(v *stats.Value) string {
	const digits, bits = 8, 64
	text := value(v)
	x, err := strconv.ParseFloat(text, bits)
	if err != nil || !strings.ContainsAny(text, ".e") {
		return text
	}
	return strconv.FormatFloat(x, 'g', digits, bits)
}

// cell returns a value as short printable text; of times, only the minute.
func (c *column) cell(v *stats.Value) string {
	switch {
	case v == nil:
		return ""
	case strings.HasPrefix(c.Type, "timestamp"):
		return strings.Replace(v.Short()[:min(len(v.Short()), len("2006-01-02T15:04"))], "T", " ", 1)
	default:
		return svg.Printable(v.Short(), maxCell)
	}
}
