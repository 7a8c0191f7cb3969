package dataset

// Limits are limits of the values of a table's columns. They do not affect the rows of streams: verify and publish check them.
type Limits struct {
	// Against selects the snapshot with which changes are compared: a branch, a tag, a snapshot's id or a time; "" is main.
	Against string
	Columns []ColumnLimits // in ascending order of columns; not empty
}

// Names returns the names of the columns.
func (l Limits) Names() []string {
	out := make([]string, len(l.Columns))
	for i, c := range l.Columns {
		out[i] = c.Column
	}
	return out
}

// ColumnLimits are the limits of one column, or of one series of a list, such as items.lengths. At least one of its lists is not
// empty, and no measure is in a list twice.
type ColumnLimits struct {
	Column  string
	Bounds  []Limit      // of the values; the measures are nulls, not_finite, zeros, min and max
	Changes ChangeLimits // since the base
}

// ChangeLimits are limits of changes, by the measures of docs/statistics.md.
type ChangeLimits []Limit

// Limit is the limit of a measure.
type Limit struct {
	Measure string
	Value   float64
}

// Changing reports whether any limit is one of changes, which need a base.
func (l *Limits) Changing() bool {
	for _, c := range l.Columns {
		if len(c.Changes) > 0 {
			return true
		}
	}
	return false
}

// form returns the JSON form, in the order of columns and measures; nil without limits.
func (l *Limits) form() any {
	if l == nil {
		return nil
	}
	out, columns := newObject(), newObject()
	if l.Against != "" {
		out.put("against", l.Against)
	}
	for _, c := range l.Columns {
		one := limitsForm(c.Bounds)
		if len(c.Changes) > 0 {
			one.put("change", objectForm{limitsForm(c.Changes)})
		}
		columns.put(c.Column, objectForm{one})
	}
	out.put("columns", objectForm{columns})
	return objectForm{out}
}

func limitsForm(limits []Limit) *objectText {
	out := newObject()
	for _, l := range limits {
		out.put(l.Measure, l.Value)
	}
	return out
}

// objectForm is an object as a value of another one.
type objectForm struct{ of *objectText }

// MarshalJSON implements json.Marshaler.
func (f objectForm) MarshalJSON() ([]byte, error) { return f.of.bytes(), nil }
