package statistics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/drift"
)

// namedColumns is the number of columns that the text of a match rate names.
const namedColumns = 8

// Shown returns the alarms to show to people. Alarms of nulls that the change of a match rate explains are left out, and the text of
// the match rate names their columns.
func (c *Comparison) Shown() []Alarm {
	var out []Alarm
	for _, a := range c.Alarms {
		if a.Cause == "" {
			out = append(out, a)
		}
	}
	explained := make([][]string, len(out))
	for _, a := range c.Alarms {
		at := causeOf(a, out)
		if at >= 0 && !slices.Contains(explained[at], a.Column) {
			explained[at] = append(explained[at], a.Column)
		}
	}
	for i, columns := range explained {
		if len(columns) == 0 {
			continue
		}
		list := strings.Join(columns[:min(len(columns), namedColumns)], ", ")
		if more := len(columns) - namedColumns; more > 0 {
			list += fmt.Sprintf(" and %d more", more)
		}
		out[i].Text += "; also nulls of " + list + ", since rows without a match have nulls"
	}
	return out
}

// causeOf returns the position of the alarm that explains an alarm: that of its partition, or else of all rows, or else the first of
// the entry. It returns -1 if the alarm has no cause.
func causeOf(a Alarm, alarms []Alarm) int {
	if a.Cause == "" {
		return -1
	}
	at := func(partition string) int {
		return slices.IndexFunc(alarms, func(o Alarm) bool {
			return o.Measure == drift.MatchRate && o.Entry == a.Entry && o.Partition == partition
		})
	}
	if i := at(a.Partition); i >= 0 {
		return i
	}
	if i := at(""); i >= 0 {
		return i
	}
	return slices.IndexFunc(alarms, func(o Alarm) bool { return o.Measure == drift.MatchRate && o.Entry == a.Entry })
}
