package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/statistics"
)

// shownAlarms is the number of columns and partitions whose alarms are shown as text.
const shownAlarms = 20

// comparisonText describes a comparison: a line for each column and partition with alarms.
func comparisonText(c *statistics.Comparison) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\ncompared with %s, %d rows", baseText(c), c.Rows)
	if len(c.Partitions) > 0 {
		fmt.Fprintf(&b, ", as a whole and by %s in %s", c.Partition, fault.Count(len(c.Partitions), "partition"))
	}
	b.WriteByte('\n')
	for _, list := range []struct {
		title   string
		columns []string
	}{{"only here", c.Added}, {"only in the base", c.Removed}, {"of another type than in the base", c.Retyped}} {
		if len(list.columns) > 0 {
			fmt.Fprintf(&b, "columns %s, not compared: %s\n", list.title, strings.Join(list.columns, ", "))
		}
	}
	if len(c.Alarms) == 0 {
		b.WriteString("no change is beyond its limit\n")
		return b.String()
	}
	places, left := 0, 0
	for alarms := range groups(c.Shown()) {
		if places++; places > shownAlarms {
			left++
			continue
		}
		fmt.Fprintf(&b, "  %s: %s%s\n", placeText(alarms[0]), alarms[0].Text, alsoText(alarms))
	}
	if left > 0 {
		fmt.Fprintf(&b, "  and %s more, which --json lists\n", fault.Count(left, "column or partition"))
	}
	if quiet := quietEntries(c); len(quiet) > 0 {
		fmt.Fprintf(&b, "staging entries without a change beyond its limit: %s\n", strings.Join(quiet, ", "))
	}
	return b.String()
}

// placeText names the column of an alarm, its staging entry, and its partition.
func placeText(a statistics.Alarm) string {
	place := a.Column
	if a.Entry != "" && a.Column != a.Entry && !strings.HasPrefix(a.Column, a.Entry+".") {
		place += " (" + a.Entry + ")"
	}
	if a.Partition != "" {
		place += ", " + a.Partition
	}
	return place
}

// quietEntries returns the staging entries that were compared and have no alarm, in the order of the dataset.
func quietEntries(c *statistics.Comparison) []string {
	var quiet []string
	for _, change := range c.Changes {
		loud := func(a statistics.Alarm) bool { return a.Entry == change.Entry }
		if change.Entry != "" && !slices.Contains(quiet, change.Entry) && !slices.ContainsFunc(c.Alarms, loud) {
			quiet = append(quiet, change.Entry)
		}
	}
	return quiet
}

// baseText names the base of a comparison.
func baseText(c *statistics.Comparison) string {
	switch {
	case c.Dataset != "":
		return "dataset " + c.Dataset
	case c.Snapshot == 0:
		return "a table without a snapshot"
	}
	return fmt.Sprintf("snapshot %d  %s", c.Snapshot, c.Time.Format(time.RFC3339))
}

// groups yields the alarms of each column and partition, which follow each other.
func groups(alarms []statistics.Alarm) func(func([]statistics.Alarm) bool) {
	return func(yield func([]statistics.Alarm) bool) {
		for from := 0; from < len(alarms); {
			to := from + 1
			for to < len(alarms) && alarms[to].Column == alarms[from].Column && alarms[to].Partition == alarms[from].Partition {
				to++
			}
			if !yield(alarms[from:to]) {
				return
			}
			from = to
		}
	}
}

// alsoText names the measures of further alarms of a column and partition.
func alsoText(alarms []statistics.Alarm) string {
	var measures []string
	for _, a := range alarms[1:] {
		if m := string(a.Measure); m != string(alarms[0].Measure) && !slices.Contains(measures, m) {
			measures = append(measures, m)
		}
	}
	if len(measures) == 0 {
		return ""
	}
	return "; also " + strings.Join(measures, ", ")
}

// shownRelations is the number of columns that predict a label best that are shown.
const shownRelations = 10

// labelText says how well columns predict a label.
func labelText(l *stats.Label) string {
	var b strings.Builder
	what := map[stats.LabelMeasure]string{stats.AUC: "AUC", stats.Correlation: "correlation"}[l.Measure]
	fmt.Fprintf(&b, "\n%s of columns with the label %s\n", what, l.Column)
	for i, c := range l.Columns {
		if i >= shownRelations && !c.Leak && !c.Risen {
			continue
		}
		fmt.Fprintf(&b, "  %s: %.4f in %s%s\n", c.Column, c.Value, fault.Count(c.Rows, "row"), relationNote(c, l.Limit))
	}
	if len(l.Columns) == 0 {
		b.WriteString("  no column of numbers has enough rows\n")
	}
	return b.String()
}

// relationNote compares how well a column predicts a label with the base, and says if this is an alarm.
func relationNote(c stats.Relation, limit float64) string {
	note := ""
	if c.Base != nil {
		note += fmt.Sprintf(", and was %.4f in the base", *c.Base)
	}
	if c.Leak {
		note += "  beyond " + strconv.FormatFloat(limit, 'g', -1, 64) + ": it probably has the label itself"
	}
	if c.Risen {
		note += fmt.Sprintf("  a change by %+.2f (limit %.2g): it may have values from after the label", c.Value-*c.Base, c.RiseLimit)
	}
	return note
}
