package expr

import (
	"math"
	"math/big"
	"slices"
)

// MayMatch returns false only if no row of a file, row group or partition can pass,
// given the ranges of its columns. ranges returns false for a column without a known
// range. A wrong range leads to a wrong result. Bounds of another kind than the
// column's, or a lower bound above the upper one, are ignored.
func (f *Filter) MayMatch(ranges func(column string) (Range, bool)) bool {
	return f == nil || f.root.mayMatch(ranges)
}

func (c constant) mayMatch(func(string) (Range, bool)) bool { return bool(c) }

func (j *junction) mayMatch(ranges func(string) (Range, bool)) bool {
	for _, t := range j.terms {
		if t.mayMatch(ranges) != j.all {
			return !j.all
		}
	}
	return j.all
}

func (n *null) mayMatch(ranges func(string) (Range, bool)) bool {
	r, known := n.column.ranged(ranges)
	switch {
	case !known:
		return true
	case n.isNull:
		return r.Nulls != 0 && r.Rows != 0
	default:
		return !r.allNull()
	}
}

func (p *pair) mayMatch(ranges func(string) (Range, bool)) bool {
	for _, c := range []column{p.left, p.right} {
		if r, known := c.ranged(ranges); known && r.allNull() {
			return false
		}
	}
	return true
}

// allNull reports whether every row is known to be null, or there are no rows.
func (r Range) allNull() bool {
	return r.Rows == 0 || r.Rows > 0 && r.Nulls == r.Rows
}

func (l *leaf) mayMatch(ranges func(string) (Range, bool)) bool {
	r, known := l.column.ranged(ranges)
	if !known {
		return true
	}
	if r.allNull() {
		return false
	}
	return l.between(l.bounds(r))
}

// bounds are a range's bounds in the column's units. An unknown bound is the zero Value.
type bounds struct {
	lower, upper Value
	covers       bool // whether all values except nulls lie between them, including NaN
}

// bounds returns the reliable bounds of a range.
func (l *leaf) bounds(r Range) bounds {
	s := l.column.typ
	b := bounds{covers: s.family != floats || r.NoNaN}
	kind := l.values[0].kind
	if r.HasLower && r.Lower.kind == kind {
		b.lower = r.Lower.fineLower(s)
	}
	if r.HasUpper && r.Upper.kind == kind {
		b.upper = r.Upper.fineUpper(s)
	}
	if order, ok := b.lower.compare(b.upper); ok && order > 0 {
		b.lower, b.upper = Value{}, Value{}
	}
	return b
}

// Bounds of nanosecond columns are in microseconds, rounded up or down: they differ
// from the true bounds by less than a microsecond.
const nanosPerMicro = 1000

func (v Value) fineLower(s columnType) Value {
	switch {
	case s.unit != 1:
		return v
	case v.integer <= math.MinInt64/nanosPerMicro || v.integer > math.MaxInt64/nanosPerMicro:
		return Value{}
	default:
		return Int(v.integer*nanosPerMicro - (nanosPerMicro - 1))
	}
}

func (v Value) fineUpper(s columnType) Value {
	switch {
	case s.unit != 1:
		return v
	case v.integer < math.MinInt64/nanosPerMicro || v.integer >= math.MaxInt64/nanosPerMicro:
		return Value{}
	default:
		return Int(v.integer*nanosPerMicro + (nanosPerMicro - 1))
	}
}

// between reports whether a value between the bounds may pass. NaN is above every
// bound and constant.
func (l *leaf) between(b bounds) bool {
	o := l.test.op
	switch o {
	case eq:
		at := 0 // index of the first constant that is not below the lower bound
		if b.lower.kind != noValue {
			at, _ = l.find(b.lower)
		}
		if at == len(l.values) {
			return false
		}
		order, known := b.upper.compare(l.values[at])
		return !known || order >= 0
	case ne:
		order, known := b.lower.compare(b.upper)
		if !known || order != 0 || !b.covers {
			return true
		}
		_, listed := l.find(b.lower) // both bounds are equal, so this is the only value of the column
		return !listed
	case lt, le:
		order, known := b.lower.compare(l.values[0])
		return !known || o.holds(order)
	case gt, ge:
	}
	order, known := b.upper.compare(l.values[0])
	return !known || !b.covers || o.holds(order)
}

// find returns the index of a value among the constants, or where it would be inserted.
func (l *leaf) find(v Value) (at int, found bool) {
	return slices.BinarySearchFunc(l.values, v, func(constant, v Value) int {
		order, _ := constant.compare(v)
		return order
	})
}

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
