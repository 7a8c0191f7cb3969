package decode

import (
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// checkResume reports fields of a query that contradict its cursor. The cursor defines
// the plan, and fields of the plan that the query sets must agree with it. The loader
// compares filters, because that requires the schemas of the tables.
func checkResume(d *decoder, at place, q dataset.Query) {
	if len(q.Cursor) == 0 || !d.sound(at.pathOf("cursor")) {
		return
	}
	c := q.Cursor[0]
	differing := dataset.RowsDifferences(q.Rows, c.Rows)
	for _, one := range differing {
		if one.Field != "dataset" && one.Field != "filter" {
			disagree(d, at, one)
		}
	}
	if q.Filter.IsZero() && !c.Filter.IsZero() {
		for _, one := range differing {
			if one.Field == "filter" {
				disagree(d, at, one)
			}
		}
	}
	if !d.sound(at.pathOf("snapshots")) {
		return
	}
	if differs := dataset.PinDifferences(q.Pin, c.Pin); len(differs) > 0 {
		d.fail(at.pathOf("snapshots"), "the cursor was made at other snapshots: %s; leave snapshots out", strings.Join(differs, ", "))
	}
}

// disagree reports a field that the query sets to a value different from that of its cursor.
func disagree(d *decoder, at place, of dataset.FieldDifference) {
	if path := at.pathOf(of.Field); at.has(of.Field) && d.sound(path) {
		d.fail(path, "%s, but the cursor has %s; leave %s out", of.A, of.B, of.Field)
	}
}
