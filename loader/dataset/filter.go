package dataset

import "github.com/penstock/penstock/internal/expr"

// Filter selects rows of a table, in the filter language (docs/spec/filter.md). It holds
// the original text and its parsed form. The zero Filter selects all rows. Names and
// types are resolved during planning, when the tables are known. Compare filters by their
// texts, never by ==.
type Filter struct {
	text string
	expr *expr.Expr // nil if text is empty
}

// ParseFilter parses a filter. An empty text gives the zero Filter. Errors are Invalid;
// their faults have positions in the text and no field.
func ParseFilter(text string) (Filter, error) {
	if text == "" {
		return Filter{}, nil
	}
	parsed, err := expr.Parse(text)
	if err != nil {
		return Filter{}, err
	}
	return Filter{text: text, expr: parsed}, nil
}

// FilterOf returns the filter of a parsed text, in canonical text. Nil gives the zero Filter.
func FilterOf(parsed *expr.Expr) Filter { return Filter{text: parsed.String(), expr: parsed} }

// IsZero reports whether the filter selects all rows.
func (f Filter) IsZero() bool { return f.text == "" }

// String returns the original text, or "" for the zero Filter.
func (f Filter) String() string { return f.text }

// Expr returns the parsed filter, or nil for the zero Filter.
func (f Filter) Expr() *expr.Expr { return f.expr }

// And returns the filter that selects the rows that both filters select, in canonical text. If one
// of the filters selects all rows, And returns the other filter.
func (f Filter) And(g Filter) Filter {
	switch {
	case g.IsZero():
		return f
	case f.IsZero():
		return g
	}
	both := f.expr.And(g.expr)
	return Filter{text: both.String(), expr: both}
}

// canonical returns the filter in its canonical text.
func (f Filter) canonical() Filter {
	if out, err := ParseFilter(f.expr.String()); err == nil {
		return out
	}
	f.text = f.expr.String()
	return f
}
