package dataset

import (
	"cmp"
	"strings"
)

// checkResume reports fields of a query that contradict its cursor. The cursor defines
// the plan, and fields of the plan that the query sets must agree with it. The loader
// compares filters, because that requires the schemas of the tables.
func (d *decoder) checkResume(at place, q Query) {
	if len(q.Cursor) == 0 || !d.sound(join(at.path, "cursor")) {
		return
	}
	c := q.Cursor[0]
	for i, one := range c.texts() {
		if given := q.texts()[i].text; at.has(one.name) && one.name != "dataset" && one.name != "filter" && given != one.text {
			d.disagree(at, one.name, given, one.text)
		}
	}
	if at.has("filter") && q.Filter.IsZero() && !c.Filter.IsZero() {
		d.disagree(at, "filter", "", c.Filter.String())
	}
	if !d.sound(join(at.path, "snapshots")) {
		return
	}
	if differs := PinDifferences(q.Pin, c.Pin); len(differs) > 0 {
		d.fail(join(at.path, "snapshots"), "the cursor was made at other snapshots: %s; leave snapshots out", strings.Join(differs, ", "))
	}
}

// disagree reports a field of a query that differs from its cursor.
func (d *decoder) disagree(at place, name, given, had string) {
	if path := join(at.path, name); d.sound(path) {
		given, had = apart(cmp.Or(given, "none"), cmp.Or(had, "none"))
		d.fail(path, "%s, but the cursor has %s; leave %s out", given, had, name)
	}
}
