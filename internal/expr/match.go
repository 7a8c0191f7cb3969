package expr

import (
	"bytes"
	"cmp"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock/penstock/internal/expr/operator"
	"github.com/penstock/penstock/internal/invariant"
)

// wordFunc returns results for up to 64 rows at once: bit i is the result for row
// begin+i. Bits of null rows, and those from end on, are arbitrary.
type wordFunc func(begin, end int) uint64

type (
	// matcher prepares a leaf for an array of at least one row.
	matcher func(arrow.Array) wordFunc

	// pairMatcher prepares a pair for two arrays of one length of at least one.
	pairMatcher func(a, b arrow.Array) wordFunc
)

// primitive is a test that is implemented by a matcher. All other tests are negations of
// primitives.
type primitive int

const (
	equal primitive = iota
	less
	lessOrEqual
	member
)

// primitive returns the primitive by which a test is implemented, and whether the primitive's
// result must be negated. The negation is correct even for floats, since their order, with NaN
// above all other values, is total.
func (t test) primitive() (kind primitive, negated bool) {
	if t.members {
		return member, t.op == ne
	}
	switch t.op {
	case eq, ne:
		return equal, t.op == ne
	case lt, ge:
		return less, t.op == ge
	case le, gt:
	}
	return lessOrEqual, t.op == gt
}

// matcherOf returns the matcher for the primitive of a test.
func matcherOf(s columnType, t test, values []Value) matcher {
	kind, _ := t.primitive()
	switch {
	case s.family == floats && s.bits == 32:
		return numberMatcher(kind, convert(values, func(v Value) float32 { return float32(v.float) }))
	case s.family == floats:
		return numberMatcher(kind, convert(values, func(v Value) float64 { return v.float }))
	case s.family == decimals:
		return decimalMatcher(kind, convert(values, func(v Value) decimal128.Num {
			units, exact := number{v.unscaled, v.scale}.floor(s.scale)
			invariant.Check(exact, "a decimal constant must have the column's scale")
			return decimal128.FromBigInt(units)
		}))
	case s.family == booleans:
		return booleanMatcher(values[0].integer == 1)
	case s.family == texts || s.family == binaries:
		return textMatcher(kind, convert(values, func(v Value) string { return v.text }))
	case s.family == dates || s.bits == 32:
		return numberMatcher(kind, convert(values, func(v Value) int32 { return int32(v.integer) }))
	default:
		return numberMatcher(kind, convert(values, func(v Value) int64 { return v.integer }))
	}
}

func convert[T any](values []Value, to func(Value) T) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = to(v)
	}
	return out
}

// maxLinear is the maximum length of lists that are searched linearly.
const maxLinear = 6

func numberMatcher[T int32 | int64 | float32 | float64](kind primitive, constants []T) matcher {
	first := constants[0]
	switch {
	case kind == equal:
		return func(a arrow.Array) wordFunc { return equalWords(arrow.GetValues[T](a.Data(), 1), first) }
	case kind == less:
		return func(a arrow.Array) wordFunc { return lessWords(arrow.GetValues[T](a.Data(), 1), first) }
	case kind == lessOrEqual:
		return func(a arrow.Array) wordFunc { return lessOrEqualWords(arrow.GetValues[T](a.Data(), 1), first) }
	case len(constants) <= maxLinear:
		return func(a arrow.Array) wordFunc {
			rows := arrow.GetValues[T](a.Data(), 1)
			return func(begin, end int) (word uint64) {
				for _, c := range constants {
					word |= equalWords(rows, c)(begin, end)
				}
				return word
			}
		}
	default:
		set := setOf(constants)
		return func(a arrow.Array) wordFunc {
			rows := arrow.GetValues[T](a.Data(), 1)
			return words(func(i int) bool { _, in := set[rows[i]]; return in })
		}
	}
}

func setOf[T comparable](constants []T) map[T]struct{} {
	set := make(map[T]struct{}, len(constants))
	for _, c := range constants {
		set[c] = struct{}{}
	}
	return set
}

// The three loops below take most of the time of an evaluation. So they have no call and no branch
// for each row.

func equalWords[T int32 | int64 | float32 | float64](rows []T, c T) wordFunc {
	return func(begin, end int) (word uint64) {
		for i, v := range rows[begin:end] {
			var bit uint64
			if v == c {
				bit = 1
			}
			word |= bit << (uint(i) & 63)
		}
		return word
	}
}

func lessWords[T int32 | int64 | float32 | float64](rows []T, c T) wordFunc {
	return func(begin, end int) (word uint64) {
		for i, v := range rows[begin:end] {
			var bit uint64
			if v < c {
				bit = 1
			}
			word |= bit << (uint(i) & 63)
		}
		return word
	}
}

func lessOrEqualWords[T int32 | int64 | float32 | float64](rows []T, c T) wordFunc {
	return func(begin, end int) (word uint64) {
		for i, v := range rows[begin:end] {
			var bit uint64
			if v <= c {
				bit = 1
			}
			word |= bit << (uint(i) & 63)
		}
		return word
	}
}

// words returns a wordFunc that calls holds for each row.
func words(holds func(row int) bool) wordFunc {
	return func(begin, end int) (word uint64) {
		for i := begin; i < end; i++ {
			if holds(i) {
				word |= 1 << (uint(i-begin) & 63)
			}
		}
		return word
	}
}

func decimalMatcher(kind primitive, constants []decimal128.Num) matcher {
	first := constants[0]
	set := setOf(constants)
	return func(a arrow.Array) wordFunc {
		rows := arrow.GetValues[decimal128.Num](a.Data(), 1)
		switch kind {
		case equal:
			return words(func(i int) bool { return rows[i] == first })
		case less:
			return words(func(i int) bool { return rows[i].Less(first) })
		case lessOrEqual:
			return words(func(i int) bool { return !first.Less(rows[i]) })
		case member:
		}
		return words(func(i int) bool { _, in := set[rows[i]]; return in })
	}
}

// booleanMatcher matches a boolean value.
func booleanMatcher(value bool) matcher {
	return func(a arrow.Array) wordFunc {
		bits, offset := a.Data().Buffers()[1].Bytes(), a.Data().Offset()
		return func(begin, end int) uint64 {
			word := operator.LoadBits(bits, offset+begin, end-begin)
			if !value {
				word = ^word
			}
			return word
		}
	}
}

func textMatcher(kind primitive, constants []string) matcher {
	first := constants[0]
	set := setOf(constants)
	return func(a arrow.Array) wordFunc {
		at := bytesAt(a)
		switch kind {
		case equal:
			return words(func(i int) bool { return string(at(i)) == first })
		case less:
			return words(func(i int) bool { return string(at(i)) < first })
		case lessOrEqual:
			return words(func(i int) bool { return string(at(i)) <= first })
		case member:
		}
		return words(func(i int) bool { _, in := set[string(at(i))]; return in })
	}
}

// bytesAt returns a function that returns the values of a text or binary array.
func bytesAt(a arrow.Array) func(int) []byte {
	switch a := a.(type) {
	case *array.FixedSizeBinary:
		return a.Value
	case interface{ ValueOffsets() []int64 }:
		return sliced(a.ValueOffsets(), valueBytes(a.(arrow.Array)))
	case interface{ ValueOffsets() []int32 }:
		return sliced(a.ValueOffsets(), valueBytes(a.(arrow.Array)))
	default:
		invariant.Check(false, "no access to the bytes of %T", a)
		return func(int) []byte { return nil }
	}
}

// valueBytes returns the buffer that offsets refer to.
func valueBytes(a arrow.Array) []byte {
	if buffer := a.Data().Buffers()[2]; buffer != nil {
		return buffer.Bytes()
	}
	return nil
}

func sliced[O int32 | int64](offsets []O, bytes []byte) func(int) []byte {
	return func(i int) []byte { return bytes[offsets[i]:offsets[i+1]] }
}

// pairMatcherOf returns the matcher that compares two columns of one family. Unlike
// the matcher of a leaf, it never needs negation.
func pairMatcherOf(o op, s columnType) pairMatcher {
	switch s.family {
	case floats:
		if s.bits == 32 {
			return matchNumbers[float32](o, arrow.FLOAT32, matchPairs(o, floatAt, compareFloats))
		}
		return matchNumbers[float64](o, arrow.FLOAT64, matchPairs(o, floatAt, compareFloats))
	case decimals:
		return matchPairs(o, func(a arrow.Array) func(int) decimal128.Num {
			rows := arrow.GetValues[decimal128.Num](a.Data(), 1)
			return func(i int) decimal128.Num { return rows[i] }
		}, decimal128.Num.Cmp)
	case texts, binaries:
		return matchPairs(o, bytesAt, bytes.Compare)
	case opaque, nested, integers, booleans, dates, times, timestamp:
	}
	mixed := matchPairs(o, integerAt, cmp.Compare[int64])
	if s.family == integers && s.bits == 64 {
		return matchNumbers[int64](o, arrow.INT64, mixed)
	}
	return mixed
}

// matchNumbers compares arrays of one type. Other arrays, such as a float and a double, are compared by
// mixed.
func matchNumbers[T int32 | int64 | float32 | float64](o op, id arrow.Type, mixed pairMatcher) pairMatcher {
	return func(a, b arrow.Array) wordFunc {
		if a.DataType().ID() != id || b.DataType().ID() != id {
			return mixed(a, b)
		}
		x, y := arrow.GetValues[T](a.Data(), 1), arrow.GetValues[T](b.Data(), 1)
		switch o {
		case eq:
			return equalPairs(x, y)
		case ne:
			return not64(equalPairs(x, y))
		case lt:
			return lessPairs(x, y)
		case ge:
			return not64(lessPairs(x, y))
		case gt:
			return lessPairs(y, x)
		case le:
		}
		return not64(lessPairs(y, x))
	}
}

func not64(word wordFunc) wordFunc {
	return func(begin, end int) uint64 { return ^word(begin, end) }
}

// equalPairs compares values of which NaN equals itself.
func equalPairs[T int32 | int64 | float32 | float64](x, y []T) wordFunc {
	return func(begin, end int) (word uint64) {
		right := y[begin:end]
		for i, v := range x[begin:end] {
			var bit uint64
			if v == right[i] || v != v && right[i] != right[i] {
				bit = 1
			}
			word |= bit << (uint(i) & 63)
		}
		return word
	}
}

// lessPairs compares values of which NaN is the greatest.
func lessPairs[T int32 | int64 | float32 | float64](x, y []T) wordFunc {
	return func(begin, end int) (word uint64) {
		right := y[begin:end]
		for i, v := range x[begin:end] {
			var bit uint64
			if v < right[i] || v == v && right[i] != right[i] {
				bit = 1
			}
			word |= bit << (uint(i) & 63)
		}
		return word
	}
}

func matchPairs[T any](o op, access func(arrow.Array) func(int) T, compare func(x, y T) int) pairMatcher {
	return func(a, b arrow.Array) wordFunc {
		left, right := access(a), access(b)
		return words(func(i int) bool { return o.holds(compare(left(i), right(i))) })
	}
}

// compareFloats orders NaN above everything else.
func compareFloats(x, y float64) int {
	switch {
	case math.IsNaN(x) || math.IsNaN(y):
		return cmp.Compare(y, x) // cmp orders NaN below everything else
	default:
		return cmp.Compare(x, y)
	}
}

func floatAt(a arrow.Array) func(int) float64 {
	if a.DataType().ID() == arrow.FLOAT32 {
		rows := arrow.GetValues[float32](a.Data(), 1)
		return func(i int) float64 { return float64(rows[i]) }
	}
	rows := arrow.GetValues[float64](a.Data(), 1)
	return func(i int) float64 { return rows[i] }
}

// integerAt returns a function that returns the values of an array of integers, dates,
// times, timestamps or booleans.
func integerAt(a arrow.Array) func(int) int64 {
	if flags, ok := a.(*array.Boolean); ok {
		return func(i int) int64 { return Bool(flags.Value(i)).integer }
	}
	if a.DataType().ID() == arrow.INT32 || a.DataType().ID() == arrow.DATE32 {
		rows := arrow.GetValues[int32](a.Data(), 1)
		return func(i int) int64 { return int64(rows[i]) }
	}
	rows := arrow.GetValues[int64](a.Data(), 1)
	return func(i int) int64 { return rows[i] }
}
