package dataset

import "github.com/penstock/penstock/internal/expr"

// Filter says which rows of a table count, in the filter language
// (docs/spec/filter.md): its text as it was given, and what was read from it,
// once. The zero Filter keeps all rows. Its names and types are for the plan,
// which knows the tables. Filters are compared by their texts, never by ==.
type Filter struct {
	text string
	expr *expr.Expr // nil where text is empty
}

// ParseFilter reads a filter; an empty text is the zero Filter. Faults are
// Invalid: positions in the text, of no field.
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

// MustFilter is ParseFilter for a text that is known to be a filter, as one in
// a program's source is. It panics on any other.
func MustFilter(text string) Filter {
	f, err := ParseFilter(text)
	if err != nil {
		panic("dataset: " + err.Error()) //nolint:forbidigo // a fault of the source
	}
	return f
}

// IsZero says whether all rows count.
func (f Filter) IsZero() bool { return f.text == "" }

// String returns the text as it was given, "" for the zero Filter.
func (f Filter) String() string { return f.text }

// Expr returns the parsed filter; nil keeps all rows.
func (f Filter) Expr() *expr.Expr { return f.expr }

// canonical returns the filter that its canonical text parses to.
func (f Filter) canonical() Filter {
	if out, err := ParseFilter(f.expr.String()); err == nil {
		return out
	}
	f.text = f.expr.String()
	return f
}
