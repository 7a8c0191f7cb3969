package expr

import "math/big"

// MayHold is false only if no row can pass, where holds is false only if no row has
// one of a column's values. It is asked for equality and IN alone, with values in the
// column's own units.
func (f *Filter) MayHold(holds func(column string, values []Value) bool) bool {
	return f == nil || mayHold(f.root, holds)
}

func mayHold(r rule, holds func(string, []Value) bool) bool {
	switch r := r.(type) {
	case constant:
		return bool(r)
	case *junction:
		if !namesValues(r) {
			return true
		}
		for _, t := range r.terms {
			if mayHold(t, holds) != r.all {
				return !r.all
			}
		}
		return r.all
	case *leaf:
		return r.test.op != eq || holds(r.column.name, r.values)
	default: // nulls, pairs and prefixes name no values
		return true
	}
}

// namesValues says whether a rule can be decided by the values that it names. Of an
// AND one term may be, of an OR all must be.
func namesValues(r rule) bool {
	switch r := r.(type) {
	case constant:
		return true
	case *junction:
		for _, t := range r.terms {
			if namesValues(t) == r.all {
				return r.all
			}
		}
		return !r.all
	case *leaf:
		return r.test.op == eq
	default:
		return false
	}
}

// Text returns the value of a string or binary column; false for others.
func (v Value) Text() (string, bool) { return v.text, v.kind == textValue }

// Unscaled returns the value of a decimal column as a number of units of a scale;
// false for others, and where it is no whole number of them.
func (v Value) Unscaled(scale int) (*big.Int, bool) {
	if v.kind != decimalValue {
		return nil, false
	}
	return number{v.unscaled, v.scale}.floor(scale)
}
