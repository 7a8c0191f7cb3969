package decode

import (
	"math"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// readValueLimits decodes limits of the values of a table's columns.
func readValueLimits(d *decoder, at place) *dataset.Limits {
	var out dataset.Limits
	object(d, at, &out, []field[dataset.Limits]{
		{name: "against", also: []string{"base", "baseline"}, read: func(d *decoder, at place, out *dataset.Limits) { out.Against = readRef(d, at) }},
		{name: "columns", must: true, read: func(d *decoder, at place, out *dataset.Limits) { out.Columns = readLimitedColumns(d, at) }},
	})
	return &out
}

// readLimitedColumns decodes an object from columns to their limits. The result is sorted by column.
func readLimitedColumns(d *decoder, at place) (out []dataset.ColumnLimits) {
	if at.kind != kindObject {
		d.fail(at.path, "must be an object that maps columns to limits, not %s", at.kind)
		return nil
	}
	if len(at.members) == 0 || len(at.members) > maxColumns {
		d.fail(at.path, "must have 1 to %d columns, not %d", maxColumns, len(at.members))
		return nil
	}
	for _, m := range at.members {
		p := at.member(m)
		if m.name == "" || len(m.name) > maxName || strings.ContainsFunc(m.name, isControl) {
			d.fail(p.path, "a column's name has 1 to %d bytes and no control characters", maxName)
		}
		out = append(out, readColumnLimits(d, m.name, p))
	}
	slices.SortFunc(out, func(a, b dataset.ColumnLimits) int { return strings.Compare(a.Column, b.Column) })
	return out
}

// maxLimit is the greatest limit of a mean, a quantile, a unit or an index.
const maxLimit = 1e18

func readColumnLimits(d *decoder, column string, at place) dataset.ColumnLimits {
	out := dataset.ColumnLimits{Column: column}
	object(d, at, &out, []field[dataset.ColumnLimits]{
		{name: "nulls", also: []string{"null_rate", "null_fraction"}, read: bound("nulls", 0, 1)},
		{name: "not_finite", also: []string{"nan", "nans"}, read: bound("not_finite", 0, 1)},
		{name: "zeros", also: []string{"empty"}, read: bound("zeros", 0, 1)},
		{name: "min", also: []string{"minimum"}, read: bound("min", -math.MaxFloat64, math.MaxFloat64)},
		{name: "max", also: []string{"maximum"}, read: bound("max", -math.MaxFloat64, math.MaxFloat64)},
		{name: "change", also: []string{"changes", "top", "form", "unit", "mean", "quantile", "psi"}, read: func(d *decoder, at place, out *dataset.ColumnLimits) {
			object(d, at, &out.Changes, changeFields())
			sortLimits(out.Changes)
			limitless(d, at)
		}},
		{name: "match_rate"},
	})
	sortLimits(out.Bounds)
	limitless(d, at)
	value := map[string]float64{"min": math.Inf(-1), "max": math.Inf(1)}
	for _, l := range out.Bounds {
		value[l.Measure] = l.Value
	}
	if value["min"] > value["max"] {
		d.fail(fault.FieldPath(at.path, "min"), "is greater than max")
	}
	return out
}

// limitless reports an object without limits. A null counts as omitted.
func limitless(d *decoder, at place) {
	if at.kind == kindObject && !slices.ContainsFunc(at.members, func(m *member) bool { return at.member(m).kind != kindNull }) {
		d.fail(at.path, "has no limit")
	}
}

// changeFields are the limits of changes.
func changeFields() []field[dataset.ChangeLimits] {
	return []field[dataset.ChangeLimits]{
		{name: "nulls", read: change("nulls", 0, 1)},
		{name: "not_finite", read: change("not_finite", 0, 1)},
		{name: "zeros", read: change("zeros", 0, 1)},
		{name: "top", read: change("top", 0, 1)},
		{name: "form", read: change("form", 0, 1)},
		{name: "unit", read: change("unit", 1, maxLimit)},
		{name: "mean", read: change("mean", 0, maxLimit)},
		{name: "quantile", read: change("quantile", 0, maxLimit)},
		{name: "psi", read: change("psi", 0, maxLimit)},
	}
}

// bound returns the function that reads the bound of a measure.
func bound(measure string, low, high float64) readFunc[dataset.ColumnLimits] {
	return func(d *decoder, at place, out *dataset.ColumnLimits) {
		out.Bounds = append(out.Bounds, dataset.Limit{Measure: measure, Value: d.number(at, low, high)})
	}
}

// change returns the function that reads the limit of a change.
func change(measure string, low, high float64) readFunc[dataset.ChangeLimits] {
	return func(d *decoder, at place, out *dataset.ChangeLimits) {
		*out = append(*out, dataset.Limit{Measure: measure, Value: d.number(at, low, high)})
	}
}

func sortLimits(limits []dataset.Limit) {
	slices.SortFunc(limits, func(a, b dataset.Limit) int { return strings.Compare(a.Measure, b.Measure) })
}
