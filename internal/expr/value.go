package expr

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// Unknown stands for a count that nobody knows.
const Unknown int64 = -1

// Value is one value of a column, as bounds in files give it. The zero Value
// is no value. Values are immutable.
//
// Units: dates are days since 1970-01-01; times are microseconds since
// midnight and timestamps microseconds since 1970-01-01 00:00 UTC, also where
// the column counts nanoseconds. Those may be rounded either way: MayMatch
// allows for a microsecond on both sides.
type Value struct {
	kind     valueKind
	integer  int64
	float    float64
	text     string
	unscaled *big.Int
	scale    int
}

type valueKind int

const (
	noValue valueKind = iota
	integerValue
	floatValue
	textValue
	truthValue
	decimalValue
)

// Int returns a value of an int32, int64, date, time or timestamp column.
func Int(v int64) Value { return Value{kind: integerValue, integer: v} }

// Float returns a value of a float32 or float64 column. NaN is no value.
func Float(v float64) Value {
	if math.IsNaN(v) {
		return Value{}
	}
	return Value{kind: floatValue, float: v}
}

// Text returns a value of a string column.
func Text(v string) Value { return Value{kind: textValue, text: v} }

// Bytes returns a value of a binary or fixed-size binary column; v is copied.
func Bytes(v []byte) Value { return Value{kind: textValue, text: string(v)} }

// Bool returns a value of a boolean column.
func Bool(v bool) Value {
	out := Value{kind: truthValue}
	if v {
		out.integer = 1
	}
	return out
}

// Decimal returns the value unscaled × 10^-scale of a decimal column; the
// scale need not be the column's. The number is copied; nil is no value.
func Decimal(unscaled *big.Int, scale int) Value {
	if unscaled == nil {
		return Value{}
	}
	n := newNumber(new(big.Int).Set(unscaled), scale)
	return Value{kind: decimalValue, unscaled: n.unscaled, scale: n.scale}
}

// compare orders two values of one kind; ok is false for other pairs.
func (v Value) compare(w Value) (order int, ok bool) {
	if v.kind != w.kind {
		return 0, false
	}
	switch v.kind {
	case integerValue, truthValue:
		return cmp.Compare(v.integer, w.integer), true
	case floatValue:
		return cmp.Compare(v.float, w.float), true // never NaN, and cmp takes -0 for 0
	case textValue:
		return strings.Compare(v.text, w.text), true
	case decimalValue:
		scale := max(v.scale, w.scale)
		a, _ := number{v.unscaled, v.scale}.floor(scale)
		b, _ := number{w.unscaled, w.scale}.floor(scale)
		return a.Cmp(b), true
	case noValue:
	}
	return 0, false
}

// Range is what is known of a column's values in a file, a row group or a
// partition without reading them. Every value that is neither null nor NaN
// lies between the bounds; a bound may be looser than the tightest one, as a
// truncated string is (cut for a lower bound, cut and raised for an upper).
// An identity partition's constant is both bounds.
//
// A count of Unknown (-1) is not known: mind that the zero Range says that
// there are no rows. NoNaN says that a float column holds no NaN.
type Range struct {
	Lower, Upper       Value
	HasLower, HasUpper bool
	Nulls, Rows        int64 // of all rows, how many are null
	NoNaN              bool
}

// Unbounded returns the range of which only the rows are known; they may be
// Unknown too.
func Unbounded(rows int64) Range {
	return Range{Nulls: Unknown, Rows: rows}
}

// Constant returns the range of a column that holds one value in every row,
// as an identity partition's does. The value no value stands for null.
func Constant(v Value, rows int64) Range {
	if v.kind == noValue {
		return Range{Nulls: rows, Rows: rows}
	}
	return Range{Lower: v, Upper: v, HasLower: true, HasUpper: true, Rows: rows, NoNaN: true}
}
