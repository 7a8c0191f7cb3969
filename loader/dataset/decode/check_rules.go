package decode

import (
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// checkRules reports rules of a staging table that cannot be combined.
func (d *decoder) checkRules(at place, s dataset.Staging) {
	if at.kind != kindObject || !d.sound(at.pathOf("join")) {
		return
	}
	kind := s.Join
	if !kind.Adds() {
		for _, name := range []string{"columns", "prefix", "matched_as", "missing", "duplicates", "order_by"} {
			d.refuse(at, name, "%s keeps or drops training rows and adds no column, so %s says nothing; leave it out", kind, name)
		}
	}
	if kind.Adds() && !kind.Fills() {
		d.refuse(at, "matched_as", "every row of an %s join matched; leave it out, or say join: left", kind)
		if s.Missing.Defaults() {
			d.refuse(at, "missing", "an %s join drops rows without a match, so they need no values; leave it out, or say join: left", kind)
		}
	}
	if kind.Replaces() && s.Duplicates.Multiply() {
		d.refuse(at, "duplicates", "an overlay replaces the values of one row by those of one row; say first or last")
	}
	if !kind.Replaces() {
		d.refuse(at, "nulls", "says what a null of an overlay does; leave it out, or say join: overlay")
	}
	if kind.Adds() && s.Duplicates.Fail() && d.sound(at.pathOf("duplicates")) {
		d.refuse(at, "order_by", "orders the rows of one key, of which there may be one alone; say duplicates: first, last or all")
	}
	if s.PointInTime != nil && s.Duplicates.Multiply() && !kind.Replaces() {
		d.refuse(at, "duplicates", "point_in_time takes one row per key; say error, first or last")
	}
	d.checkDefaults(at, s)
	d.checkMatchedAs(at, s)
}

// refuse reports a field that is set but must not be.
func (d *decoder) refuse(at place, name, format string, args ...any) {
	if at.has(name) {
		d.fail(at.pathOf(name), format, args...)
	}
}

// checkDefaults reports defaults for columns that the entry does not have.
func (d *decoder) checkDefaults(at place, s dataset.Staging) {
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
				Message: "is none of the columns; the names are those of the output, with prefix",
				Nearest: fault.Nearest(one.Column, names),
			})
		}
	}
}

// checkMatchedAs reports a column with the same name as the matched_as column.
func (d *decoder) checkMatchedAs(at place, s dataset.Staging) {
	for i, c := range s.Columns {
		if s.MatchedAs != "" && outputName(c, s.Prefix) == s.MatchedAs {
			d.fail(at.pathOf("matched_as"), "columns[%d] is called %q already; give one of them another name", i, s.MatchedAs)
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
