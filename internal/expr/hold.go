package expr

import "math/big"

// MayHold returns false only if no row can pass. holds must return false only if no row
// has one of the given values in a column. It is called for equality and IN only, with
// values in the column's own units.
func (f *Filter) MayHold(holds func(column string, values []Value) bool) bool {
	return f == nil || mayHold(f.root, holds)
}

func mayHold(r rule, holds func(string, []Value) bool) bool {
	switch r := r.(type) {
	case constant:
		return bool(r)
	case *junction:
		if !decidedByValues(r) {
			return true
		}
		for _, t := range r.terms {
			if mayHold(t, holds) != r.all {
				return !r.all
			}
		}
		return r.all
	case *leaf:
		return r.test.op != eq || r.column.value != nil || holds(r.column.name, r.values)
	default: // null tests, pairs and patterns
		return true
	}
}

// decidedByValues reports whether MayHold can exclude a rule by its values. It can exclude an AND
// if it can exclude one of the terms, and an OR if it can exclude all terms.
func decidedByValues(r rule) bool {
	switch r := r.(type) {
	case constant:
		return true
	case *junction:
		for _, t := range r.terms {
			if decidedByValues(t) == r.all {
				return r.all
			}
		}
		return !r.all
	case *leaf:
		return r.test.op == eq && r.column.value == nil
	default:
		return false
	}
}

// Text returns the value of a string or binary column; false for others.
func (v Value) Text() (string, bool) { return v.text, v.kind == textValue }

// Unscaled returns the value of a decimal column in units of 10^-scale; false for other
// values, and if it is not a whole number of units.
func (v Value) Unscaled(scale int) (*big.Int, bool) {
	if v.kind != decimalValue {
		return nil, false
	}
	return number{v.unscaled, v.scale}.floor(scale)
}
