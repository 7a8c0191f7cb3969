package htmlpage

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/statistics"
)

// view is what the template shows. All texts of tables are printable.
type view struct {
	Title, Policy string
	Style         template.CSS
	Name          string
	Facts         []fact
	Sample        string
	Remarks       []remark
	MoreRemarks   int
	Shown         []fact // the quantiles in the table of columns
	Columns       []column
	Open          bool // whether details are open
	NotDescribed  []string
	DistinctError string
	Against       *against // nil without a comparison
	Label         *label   // nil without a label
	Entries       *joined  // nil of a table
}

// fact is a named value. A minor one is left out on narrow screens.
type fact struct {
	Name, Value string
	Minor       bool
	Base        string // the value of the base of a comparison
}

// remark says what is unusual about the column with an ID.
type remark struct{ ID, Name, Text string }

// column describes a series of values.
type column struct {
	ID, Name, Type, Nulls, Distinct, Min, Max, Mean, Notes string
	Sparkline                                              template.HTML
	Shown, Facts                                           []fact
	Pictures                                               []picture
	// Change is the largest change from the base, and Alarm whether a change is beyond its limit.
	Change string
	Alarm  bool
}

// picture is a chart.
type picture struct {
	Caption string
	Picture template.HTML
}

const (
	maxName    = 120 // characters of a name
	maxText    = 480 // characters of a sentence
	maxCell    = 32  // characters of a value in the table of columns
	maxRemarks = 20
	openUpTo   = 8 // columns
)

// subject is a table or dataset to describe.
type subject struct {
	name         string
	facts        []fact
	rows         int64
	sample       statistics.Sample
	quantiles    []float64
	columns      []stats.Summary
	ages         int // of the columns: ages of entries
	notDescribed []string
	against      *statistics.Comparison
	label        *stats.Label
}

// tableSubject returns a table as a subject.
func tableSubject(r *statistics.Result) subject {
	s := subject{
		name: r.Table, rows: r.Rows, sample: r.Sample, quantiles: r.QuantileNames, columns: r.Columns, notDescribed: r.NotDescribed, against: r.Against, label: r.Label,
		facts: []fact{
			{Name: "Snapshot", Value: snapshot(r.Snapshot)},
			{Name: "Committed", Value: committed(r.Time)},
		},
	}
	if r.Files != nil && r.Bytes != nil {
		s.facts = append(s.facts, fact{Name: "Data files", Value: fmt.Sprintf("%s (%s)", svg.Count(int64(*r.Files)), fault.Size(*r.Bytes))})
	}
	return s
}

// newView returns the view of a subject.
func newView(s subject) *view {
	name := svg.Printable(s.name, maxName)
	v := &view{Title: "Statistics of " + name, Name: name, Open: len(s.columns) <= openUpTo, DistinctError: svg.Percent(s.sample.DistinctError)}
	v.Facts = append([]fact{{Name: "Rows", Value: svg.Count(s.rows)}, {Name: "Columns", Value: svg.Count(int64(topLevel(s.columns) - s.ages + len(s.notDescribed)))}}, s.facts...)
	v.Sample = sampleText(s.rows, s.sample)
	v.Against = newAgainst(s.against)
	for i := range s.quantiles {
		if shown(i, len(s.quantiles)) {
			v.Shown = append(v.Shown, fact{Name: quantileName(s.quantiles[i]), Minor: minor(i, len(s.quantiles))})
		}
	}
	for i, one := range s.columns {
		c := newColumn(fmt.Sprintf("c%d", i+1), one, s.quantiles)
		if v.Against != nil {
			v.Against.show(&c, one, s.quantiles)
		}
		v.Columns = append(v.Columns, c)
		if text := unusual(one); text != "" {
			v.Remarks = append(v.Remarks, remark{ID: c.ID, Name: c.Name, Text: text})
		}
	}
	if v.Against != nil {
		v.Against.setAlarms(s.against.Shown(), v.Columns, s.columns)
	}
	v.Label = newLabel(s.label, v.Columns, s.columns)
	if n := len(v.Remarks) - maxRemarks; n > 0 {
		v.Remarks, v.MoreRemarks = v.Remarks[:maxRemarks], n
	}
	for _, n := range s.notDescribed {
		v.NotDescribed = append(v.NotDescribed, svg.Printable(n, maxName))
	}
	return v
}

// topLevel counts the columns of a table: the series of a list follow it, and have its name and a dot before their names.
func topLevel(all []stats.Summary) (n int) {
	list := ""
	for _, s := range all {
		if list != "" && strings.HasPrefix(s.Name, list+".") {
			continue
		}
		n++
		list = ""
		if strings.HasPrefix(s.Type, "list") {
			list = s.Name
		}
	}
	return n
}

func snapshot(id int64) string {
	if id == 0 {
		return "none"
	}
	return strconv.FormatInt(id, 10)
}

func committed(at time.Time) string {
	if at.IsZero() {
		return "–"
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}

// sampleText says which numbers are those of a sample, and how exact they are.
func sampleText(rows int64, s statistics.Sample) string {
	switch {
	case rows == 0:
		return "There are no rows."
	case s.QuantileError == 0:
		return "All numbers are those of all rows."
	}
	return fmt.Sprintf("Quantiles, histograms and frequent values are those of a sample of %s rows, and all other numbers those of all rows. Each row is in the sample with a "+
		"probability of 1 in %.0f. With a probability of 99 %%, the quantiles of a column without nulls are exact to %s of its values.",
		svg.Count(s.Rows), 1/s.Rate, svg.Percent(s.QuantileError))
}

// unusual says what is unusual about the values of a column; "" if nothing is.
func unusual(s stats.Summary) string {
	var out []string
	add := func(is bool, text string) {
		if is {
			out = append(out, text)
		}
	}
	add(s.Rows > 0 && s.Nulls == s.Rows, "all values are null")
	add(s.Rows > 0 && s.Values > 1 && s.DistinctExact && s.Distinct != nil && *s.Distinct == 1, "all values are equal")
	add(s.NaN > 0, svg.Count(s.NaN)+" values are NaN")
	add(s.Infinite > 0, svg.Count(s.Infinite)+" values are infinite")
	add(strings.HasSuffix(s.Name, ".norms") && s.Zeros != nil && *s.Zeros > 0, "some vectors are zero")
	return strings.Join(out, ", ")
}

// shown reports whether the table of columns shows a quantile: the first, the middle and the last one.
func shown(i, of int) bool { return i == 0 || i == of/2 || i == of-1 }

// minor reports whether a quantile is left out on narrow screens: all but the middle one.
func minor(i, of int) bool { return i != of/2 }

func quantileName(q float64) string {
	return strconv.FormatFloat(100*q, 'g', 3, 64) + " %" //nolint:mnd // percent, digits, bits
}
