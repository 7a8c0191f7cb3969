package expr

import (
	"math"
	"slices"
)

// MayMatch is false only if no row of a file, row group or partition can pass,
// judged by what the function knows of its columns; it answers false for a
// column that it knows nothing of. A wrong range gives a wrong answer; a
// value of another kind than the column's, or a lower bound above the upper,
// counts as no bound.
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
	r, known := ranges(n.column.name)
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
		if r, known := ranges(c.name); known && r.allNull() {
			return false
		}
	}
	return true
}

// allNull reports whether every row is known to be null, or there is none.
func (r Range) allNull() bool {
	return r.Rows == 0 || r.Rows > 0 && r.Nulls == r.Rows
}

func (l *leaf) mayMatch(ranges func(string) (Range, bool)) bool {
	r, known := ranges(l.column.name)
	if !known {
		return true
	}
	if r.allNull() {
		return false
	}
	return l.between(l.bounds(r))
}

// bounds are a range's bounds in the column's units; no value where unknown.
type bounds struct {
	lower, upper Value
	covers       bool // every value that is not null lies between them, NaN too
}

// bounds takes those bounds from a range that can be relied on.
func (l *leaf) bounds(r Range) bounds {
	s := l.column.shape
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

// Bounds of nanosecond columns come in microseconds, rounded either way: the
// true bound is less than a microsecond off.
const nanosPerMicro = 1000

func (v Value) fineLower(s shape) Value {
	switch {
	case s.unit != 1:
		return v
	case v.integer <= math.MinInt64/nanosPerMicro || v.integer > math.MaxInt64/nanosPerMicro:
		return Value{}
	default:
		return Int(v.integer*nanosPerMicro - (nanosPerMicro - 1))
	}
}

func (v Value) fineUpper(s shape) Value {
	switch {
	case s.unit != 1:
		return v
	case v.integer < math.MinInt64/nanosPerMicro || v.integer >= math.MaxInt64/nanosPerMicro:
		return Value{}
	default:
		return Int(v.integer*nanosPerMicro + (nanosPerMicro - 1))
	}
}

// between reports whether a value between the bounds may pass. NaN lies above
// every bound and constant.
func (l *leaf) between(b bounds) bool {
	o := l.test.op
	switch o {
	case eq:
		at := 0 // of the least constant that is not below the lower bound
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
		_, listed := l.find(b.lower) // the only value there is
		return !listed
	case lt, le:
		order, known := b.lower.compare(l.values[0])
		return !known || o.holds(order)
	case gt, ge:
	}
	order, known := b.upper.compare(l.values[0])
	return !known || !b.covers || o.holds(order)
}

// find returns where a value is, or would be, among the constants.
func (l *leaf) find(v Value) (at int, found bool) {
	return slices.BinarySearchFunc(l.values, v, func(constant, v Value) int {
		order, _ := constant.compare(v)
		return order
	})
}
