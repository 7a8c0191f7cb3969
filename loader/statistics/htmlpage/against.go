package htmlpage

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/statistics"
)

// against shows a comparison with a base.
type against struct {
	This, Base  string // both sides
	Alarms      []alarm
	MoreAlarms  int
	NotCompared []fact
	Rows        template.HTML // over partitions
	Partition   string
	// MorePartitions is the number of earlier partitions, which are not shown.
	MorePartitions int

	base     map[string]stats.Summary
	changes  map[string][]drift.Change // by column
	places   []string
	pictures int // that may still be drawn of changes over partitions
}

// alarm is a change beyond its limit. Its ID is that of the column; it is empty if the page does not have the column.
type alarm struct{ ID, Name, Partition, Text string }

const (
	maxAlarms   = 40
	maxPictures = 60 // of changes over partitions
	maxLines    = 4  // of such a picture
)

// newAgainst returns what the page shows of a comparison; nil without one.
func newAgainst(c *statistics.Comparison) *against {
	if c == nil {
		return nil
	}
	out := &against{
		This: "This table", Base: baseText(c), Partition: svg.Printable(c.Partition, maxName), MorePartitions: c.MorePartitions, pictures: maxPictures,
		base: map[string]stats.Summary{}, changes: map[string][]drift.Change{},
	}
	if c.Dataset != "" {
		out.This = "This dataset"
	}
	for _, s := range c.Columns {
		out.base[s.Name] = s
	}
	for _, change := range c.Changes {
		if change.Measure != drift.MatchRate { // of an entry, and not of a column
			out.changes[change.Column] = append(out.changes[change.Column], change)
		}
	}
	for _, list := range []struct {
		name    string
		columns []string
	}{{"Columns that the base lacks", c.Added}, {"Columns that only the base has", c.Removed}, {"Columns of other types", c.Retyped}} {
		if len(list.columns) > 0 {
			out.NotCompared = append(out.NotCompared, fact{Name: list.name, Value: names(list.columns)})
		}
	}
	rows := svg.Lines{Title: "Rows of each partition", Zero: true, Label: func(x float64) string { return svg.Count(int64(x)) }, Series: []svg.Series{{Name: out.This}, {Name: "Base"}}}
	for _, p := range c.Partitions {
		rows.X = append(rows.X, p.Partition)
		rows.Series[0].Values = append(rows.Series[0].Values, float64(p.Rows))
		rows.Series[1].Values = append(rows.Series[1].Values, float64(p.BaseRows))
	}
	if out.places = rows.X; len(rows.X) > 1 {
		out.Rows = inline(rows.Draw())
	}
	return out
}

// setAlarms sets the alarms, given the columns of the page.
func (a *against) setAlarms(alarms []statistics.Alarm, columns []column, summaries []stats.Summary) {
	ids := map[string]string{}
	for i, s := range summaries {
		ids[s.Name] = columns[i].ID
	}
	for _, one := range alarms[:min(len(alarms), maxAlarms)] {
		id := ids[one.Column]
		if one.Measure == drift.MatchRate {
			id = ""
		}
		a.Alarms = append(a.Alarms, alarm{
			ID: id, Name: svg.Printable(one.Column, maxName), Partition: svg.Printable(one.Partition, maxName), Text: svg.Printable(one.Text, maxText),
		})
	}
	a.MoreAlarms = len(alarms) - len(a.Alarms)
}

// baseText names the base.
func baseText(c *statistics.Comparison) string {
	switch {
	case c.Dataset != "":
		return "dataset " + svg.Printable(c.Dataset, maxName) + ", " + svg.Count(c.Rows) + " rows"
	case c.Snapshot == 0:
		return "a table without a snapshot"
	}
	return fmt.Sprintf("snapshot %s of %s, %s rows", snapshot(c.Snapshot), committed(c.Time), svg.Count(c.Rows))
}

// names lists names.
func names(all []string) string {
	const most = 50
	out := make([]string, 0, most)
	for _, n := range all[:min(len(all), most)] {
		out = append(out, svg.Printable(n, maxName))
	}
	if n := len(all) - most; n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(out, ", ")
}

// none stands for a value that is missing on one side.
const none = "–"

// show adds what changed to a column.
func (a *against) show(c *column, s stats.Summary, quantiles []float64) {
	changes := a.changes[s.Name]
	if len(changes) > 0 {
		worst := slices.MaxFunc(changes, func(x, y drift.Change) int { return cmp.Compare(excess(x), excess(y)) })
		c.Change = fmt.Sprintf("%s: %s its limit", worst.Measure, times(excess(worst)))
		c.Alarm = slices.ContainsFunc(changes, func(x drift.Change) bool { return x.Alarm })
	}
	base, ok := a.base[s.Name]
	if !ok || base.Type != s.Type {
		return
	}
	of := facts(base, quantiles)
	for i, f := range c.Facts {
		c.Facts[i].Base = none
		if k := slices.IndexFunc(of, func(b fact) bool { return b.Name == f.Name }); k >= 0 {
			c.Facts[i].Base = of[k].Value
			of = slices.Delete(of, k, k+1)
		}
	}
	for _, f := range of { // only the base has them
		c.Facts = append(c.Facts, fact{Name: f.Name, Value: none, Base: f.Value})
	}
	a.draw(c, s.Histogram, base.Histogram, changes)
}

// draw draws the histogram of the column and that of the base, which have the same bins, in place of that of the column, and the changes of
// partitions if one of them is an alarm.
func (a *against) draw(c *column, of, base *stats.Histogram, changes []drift.Change) {
	if of != nil && base != nil && slices.Equal(of.Edges, base.Edges) {
		from, to := limits(of)
		pair := svg.Pair{
			Title: "Histograms of " + c.Name + " and of the base", First: bins(of), Second: bins(base), Names: [2]string{a.This, "Base"}, From: from, To: to,
		}
		c.Pictures[0] = picture{Caption: "Histograms, as shares of the values", Picture: inline(pair.Draw())}
	}
	if lines := a.overPartitions(changes); lines != nil && a.pictures > 0 {
		a.pictures--
		lines.Title = "Changes of " + c.Name + " in each partition"
		c.Pictures = append(c.Pictures, picture{Caption: "Changes in each partition, as multiples of their limits", Picture: inline(lines.Draw())})
	}
}

// overPartitions returns the measures of a column over the partitions: those with alarms, the largest first. It returns nil without alarms.
func (a *against) overPartitions(changes []drift.Change) *svg.Lines {
	at := map[string]int{}
	for i, p := range a.places {
		at[p] = i
	}
	type line struct {
		svg.Series
		largest float64
	}
	lines := make(map[drift.Measure]*line)
	for _, c := range changes {
		i, ok := at[c.Partition]
		if c.Partition == "" || !ok || c.Measure == drift.Top {
			continue
		}
		l := lines[c.Measure]
		if l == nil {
			l = &line{Series: svg.Series{Name: string(c.Measure), Values: gaps(len(a.places))}}
			lines[c.Measure] = l
		}
		l.Values[i] = excess(c)
		l.largest = max(l.largest, excess(c))
		if c.Alarm {
			l.Marked = append(l.Marked, i)
		}
	}
	var all []*line
	for _, l := range lines {
		if len(l.Marked) > 0 {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(x, y *line) int { return cmp.Or(cmp.Compare(y.largest, x.largest), cmp.Compare(x.Name, y.Name)) })
	out := &svg.Lines{X: a.places, Zero: true, Label: times}
	for _, l := range all[:min(len(all), maxLines)] {
		out.Series = append(out.Series, l.Series)
	}
	return out
}

// excess returns how large a change is as a multiple of its limit. Ratios count by their logarithms, so that no change is 0.
func excess(c drift.Change) float64 {
	if c.Measure == drift.Unit {
		return math.Log(c.Size()) / math.Log(c.Limit)
	}
	return c.Excess()
}

// times returns a factor.
func times(factor float64) string { return strconv.FormatFloat(factor, 'g', 3, 64) + " ×" } //nolint:mnd // digits, bits

// gaps returns values that are not drawn.
func gaps(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}
