package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// PinOf returns the pin of a query whose defaults are set. It merges the query's pin with the
// cursor's pin, which must agree. The result has a pin for the training table and for every staging
// table of the dataset. The pin of a table that is not pinned is zero. If a table is only in the
// cursor's pin, it is no longer in the dataset, and the result omits it; CheckCursor refuses the
// cursor if such a table affected the rows.
func PinOf(d dataset.Dataset, q dataset.Query) (dataset.Pin, error) {
	if len(q.Cursor) > 0 {
		if err := oneRun(q.Cursor); err != nil {
			return dataset.Pin{}, err
		}
		if differs := dataset.PinDifferences(q.Pin, q.Cursor[0].Pin); len(differs) > 0 {
			e := fault.InvalidField("snapshots", "the cursor was made at other snapshots: %s", strings.Join(differs, ", "))
			e.Differs = differs
			return dataset.Pin{}, e.WithRemedy("leave snapshots out: the pin comes from the cursor")
		}
	}
	out := dataset.Pin{Training: q.Pin.Training, Staging: map[string]dataset.TablePin{}}
	var names []string
	for _, s := range d.Staging {
		names = append(names, s.Name)
		out.Staging[s.Name] = q.Pin.Staging[s.Name]
	}
	for _, name := range slices.Sorted(maps.Keys(q.Pin.Staging)) {
		if !slices.Contains(names, name) && !pinnedBy(q.Cursor, name) {
			return dataset.Pin{}, fault.Fields([]fault.Field{{
				Field: "snapshots.staging", Message: fmt.Sprintf("the dataset has no staging table %q", name), Nearest: fault.Nearest(name, names),
			}})
		}
	}
	return out, nil
}

// CheckAdded refuses a query that resumes a run if the dataset has a new overlay, which the run did
// not have, for a column that the query reads. With the overlay, the values of the column would
// change in the middle of the run. The overlay is allowed if the query asks for it: if the query
// contains the entry, or if the query's snapshots name the entry.
func CheckAdded(r *resolve.Relation, q dataset.Query, outputs []resolve.Output) error {
	if len(q.Cursor) == 0 {
		return nil
	}
	for _, o := range resolve.Leaves(outputs) {
		for _, over := range o.Overlays {
			entry := r.Staging[over.Table].Name
			if _, pinned := q.Pin.Staging[entry]; pinned || q.GivesEntry(entry) {
				continue
			}
			return fault.InvalidField("cursor", "overlay %s of the dataset replaces column %s, and the run of the cursor did not have it", entry, o.Name).
				WithRemedy("to read the new values from here on, name the snapshot of %s in snapshots; otherwise leave column %s out", entry, o.Name)
		}
	}
	return nil
}

// pinnedBy reports whether cursors of the same plan pin a staging table.
func pinnedBy(cursors dataset.Cursors, name string) bool {
	if len(cursors) == 0 {
		return false
	}
	_, ok := cursors[0].Pin.Staging[name]
	return ok
}

// nothingOr lists names, or "nothing".
func nothingOr(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// oneRun returns an error if cursors are of different plans. The error names each field that
// differs.
func oneRun(cursors dataset.Cursors) error {
	first := cursors[0]
	for i, c := range cursors[1:] {
		differs := planDifferences(c, first, first.Plan)
		if len(differs) == 0 {
			continue
		}
		e := fault.InvalidField(fmt.Sprintf("cursor[%d]", i+1), "the cursor is of another run than cursor[0]; what differs: %s", strings.Join(differs, ", "))
		e.Differs = differs
		return e.WithRemedy("resume with the cursors of one run; ranks that plan separately must name the same snapshots, seed and filter")
	}
	return nil
}

// planDifferences lists each field in which the cursor c differs from a cursor of the plan. It
// lists the plan's id only if no other field differs, since then the same query has produced
// different splits.
func planDifferences(c, of dataset.Cursor, id string) []string {
	differs := dataset.Differences(c, of)
	if len(differs) == 0 && c.Plan != id {
		differs = []string{fmt.Sprintf("plan (%s, not %s)", c.Plan, id)}
	}
	return differs
}

// CheckCursor returns an error if a cursor belongs to another plan. The error names each field that
// differs.
func (p *Plan) CheckCursor(number int, c dataset.Cursor) error {
	differs := rowsDifferences(p.Cursor(), c, p.ID)
	switch {
	case len(differs) == 0:
		return nil
	case len(differs) == 1 && c.Filter.String() != p.Rows.Filter.String():
		return otherFilter(p.Rows.Filter.String(), c.Filter.String(), differs)
	}
	e := fault.InvalidField(fmt.Sprintf("cursor[%d]", number), "the cursor belongs to another plan; what differs: %s", strings.Join(differs, ", "))
	e.Differs = differs
	if c.Algorithm != p.Algorithm {
		return e.WithRemedy("resume on a server that plans by algorithm %d, or start without the cursor", c.Algorithm)
	}
	return e.WithRemedy("resume with the query that the cursor came from, or start without it")
}

// rowsDifferences compares a cursor with a cursor of the plan that has the given ID. It lists each
// field that affects rows and is different. A staging table that is in only one of the two pins
// does not affect the rows if the digests of the datasets agree; otherwise the list names such
// tables.
func rowsDifferences(of, c dataset.Cursor, id string) []string {
	had, have := slices.Sorted(maps.Keys(c.Pin.Staging)), slices.Sorted(maps.Keys(of.Pin.Staging))
	c.Pin.Staging, of.Pin.Staging = alsoIn(c.Pin.Staging, of.Pin.Staging), alsoIn(of.Pin.Staging, c.Pin.Staging)
	differs := planDifferences(c, of, id)
	if c.Dataset != of.Dataset && !slices.Equal(had, have) {
		differs = append(differs, fmt.Sprintf("staging (%s, not %s)", nothingOr(had), nothingOr(have)))
	}
	return differs
}

// alsoIn returns the pins of those staging tables that are in both of two pins.
func alsoIn(pin, with map[string]dataset.TablePin) map[string]dataset.TablePin {
	out := map[string]dataset.TablePin{}
	for name, table := range pin {
		if _, ok := with[name]; ok {
			out[name] = table
		}
	}
	return out
}

// otherFilter returns the error for a query with a filter that differs from the filter of the
// query's cursor. Both filters must be in canonical form. A query without a filter uses the
// cursor's filter.
func otherFilter(given, had string, differs []string) error {
	e := fault.InvalidField("filter", "%s, but the cursor has %s", given, cmp.Or(had, "none"))
	e.Differs = differs
	return e.WithRemedy("leave filter out: it comes from the cursor")
}
