package decode

import (
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// checkRules reports rules of a staging table that cannot be combined.
func checkRules(d *decoder, at place, s dataset.Staging) {
	if at.kind != kindObject || !d.sound(at.pathOf("join")) {
		return
	}
	kind := s.Join
	if !kind.Adds() {
		for _, name := range []string{"columns", "prefix", "matched_as", "missing", "duplicates", "order_by"} {
			refuse(d, at, name, "%s joins add no columns, so %s has no effect; leave it out", kind, name)
		}
	}
	if kind.Adds() && !kind.Fills() {
		refuse(d, at, "matched_as", "every row of an %s join has a match; leave it out, or use join: left", kind)
		if s.Missing.Defaults() {
			refuse(d, at, "missing", "an %s join drops rows without a match, so defaults have no effect; leave it out, or use join: left", kind)
		}
	}
	if kind.Replaces() && s.Duplicates.Multiply() {
		refuse(d, at, "duplicates", "an overlay takes values from one staging row; use first or last")
	}
	if !kind.Replaces() {
		refuse(d, at, "nulls", "applies only to overlays; leave it out, or use join: overlay")
	}
	if kind.Adds() && s.Duplicates.Fail() && d.sound(at.pathOf("duplicates")) {
		refuse(d, at, "order_by", "has no effect with duplicates: error, which allows one row per key; use duplicates: first, last or all")
	}
	if s.PointInTime != nil && s.Duplicates.Multiply() && !kind.Replaces() {
		refuse(d, at, "duplicates", "point_in_time selects one row per key; use error, first or last")
	}
	checkDefaults(d, at, s)
	checkMatchedAs(d, at, s)
}

// refuse reports a field that is set but must not be.
func refuse(d *decoder, at place, name, format string, args ...any) {
	if at.has(name) {
		d.fail(at.pathOf(name), format, args...)
	}
}

// checkDefaults reports defaults for columns that the entry does not have.
func checkDefaults(d *decoder, at place, s dataset.Staging) {
	if s.Columns == nil || !d.sound(at.pathOf("columns"), at.pathOf("prefix"), at.pathOf("missing")) {
		return
	}
	names := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		names[i] = outputName(c, s.Prefix)
	}
	for _, one := range s.Defaults {
		if !slices.Contains(names, one.Column) {
			d.add(0, fault.Field{
				Field:   fault.FieldPath(fault.FieldPath(at.pathOf("missing"), "default"), one.Column),
				Message: "is not an output column; output names include the prefix",
				Nearest: fault.Nearest(one.Column, names),
			})
		}
	}
}

// checkMatchedAs reports a column with the same name as the matched_as column.
func checkMatchedAs(d *decoder, at place, s dataset.Staging) {
	for i, c := range s.Columns {
		if s.MatchedAs != "" && outputName(c, s.Prefix) == s.MatchedAs {
			d.fail(at.pathOf("matched_as"), "columns[%d] already has the name %q; rename one of them", i, s.MatchedAs)
		}
	}
}

// outputName returns the name of a staging column in the stream.
func outputName(c dataset.Column, prefix string) string {
	if c.Name != "" {
		return c.Name
	}
	return prefix + c.Column
}
