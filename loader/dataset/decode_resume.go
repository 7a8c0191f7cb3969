package dataset

import (
	"cmp"
	"strconv"
	"strings"
)

// checkResume finds what a query says otherwise than its cursor: what the plan is
// made of comes from the cursor, and must agree where the query names it too.
// Whether filters agree, only those know who know the tables; see the loader.
func (d *decoder) checkResume(at place, q Query) {
	if len(q.Cursor) == 0 || !d.sound(join(at.path, "cursor")) {
		return
	}
	c := q.Cursor[0]
	had := Query{}.resumed(c)
	for _, one := range []struct{ name, given, had string }{
		{"sample", q.Sample.Canonical(), had.Sample.Canonical()},
		{"since", orNone(q.Since), orNone(c.Since)},
		{"order", string(q.Order), string(c.Order)},
		{"shuffle", string(q.Shuffle), string(c.Shuffle)},
		{"shuffle_window", orNone(q.ShuffleWindow), orNone(c.ShuffleWindow)},
		{"seed", strconv.FormatInt(q.Seed, 10), strconv.FormatInt(c.Seed, 10)},
		{"epoch", strconv.FormatInt(q.Epoch, 10), strconv.FormatInt(c.Epoch, 10)},
		{"lanes", strconv.Itoa(q.Lanes), strconv.Itoa(c.Lanes)},
	} {
		if at.has(one.name) && one.given != one.had {
			d.disagree(at, one.name, one.given, one.had)
		}
	}
	if at.has("filter") && q.Filter.IsZero() && c.Filter != "" {
		d.disagree(at, "filter", "", c.Filter)
	}
	if q.Snapshots == nil || !d.sound(join(at.path, "snapshots")) || q.Snapshots.Agrees(c.Pin) {
		return
	}
	if differs := PinDifferences(*q.Snapshots, c.Pin); len(differs) > 0 {
		d.fail(join(at.path, "snapshots"), "the cursor was made at other snapshots: %s; leave snapshots out", strings.Join(differs, ", "))
	}
}

// disagree says that a field of a query is another than its cursor has.
func (d *decoder) disagree(at place, name, given, had string) {
	if path := join(at.path, name); d.sound(path) {
		given, had = apart(cmp.Or(given, "none"), cmp.Or(had, "none"))
		d.fail(path, "%s, but the cursor has %s; leave %s out", given, had, name)
	}
}
