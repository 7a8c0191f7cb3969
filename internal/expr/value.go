package expr

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Unknown is the value of a count that is not known.
const Unknown int64 = -1

// Value is a value of a column, as bounds in files have it. The zero Value means that
// there is no value. Values are immutable.
//
// Dates are days since 1970-01-01, times microseconds since midnight, and timestamps
// microseconds since 1970-01-01 00:00 UTC, even if the column is in nanoseconds. Such
// values may be rounded up or down: MayMatch allows a microsecond on both sides.
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
	booleanValue
	decimalValue
)

// Int returns a value of an int32, int64, date, time or timestamp column.
func Int(v int64) Value { return Value{kind: integerValue, integer: v} }

// Float returns a value of a float32 or float64 column. It is the zero Value for NaN.
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
	out := Value{kind: booleanValue}
	if v {
		out.integer = 1
	}
	return out
}

// Decimal returns the value unscaled × 10^-scale of a decimal column. The scale need
// not be the column's. The number is copied. It is the zero Value for nil.
func Decimal(unscaled *big.Int, scale int) Value {
	if unscaled == nil {
		return Value{}
	}
	n := newNumber(new(big.Int).Set(unscaled), scale)
	return Value{kind: decimalValue, unscaled: n.unscaled, scale: n.scale}
}

// compare orders two values of one kind; ok is false if the kinds differ.
func (v Value) compare(w Value) (order int, ok bool) {
	if v.kind != w.kind {
		return 0, false
	}
	switch v.kind {
	case integerValue, booleanValue:
		return cmp.Compare(v.integer, w.integer), true
	case floatValue:
		return cmp.Compare(v.float, w.float), true // there is no NaN, and -0 equals 0
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

// Range is the range of a column's values in a file, a row group or a partition, according to
// metadata. Every value that is neither null nor NaN lies between the bounds. Bounds need not be
// tight: a string may be truncated (and, for an upper bound, incremented). The constant of an
// identity partition is both bounds.
//
// A count may be Unknown. Note that the zero Range means that there are no rows. NoNaN
// means that a float column has no NaN.
type Range struct {
	Lower, Upper       Value
	HasLower, HasUpper bool
	Nulls, Rows        int64 // Rows includes the nulls
	NoNaN              bool
}

// Unbounded returns the range of a column of which only the number of rows is known,
// or Unknown too.
func Unbounded(rows int64) Range {
	return Range{Nulls: Unknown, Rows: rows}
}

// Constant returns the range of a column that has the same value in every row, as the
// source of an identity partition does. The zero Value stands for null.
func Constant(v Value, rows int64) Range {
	if v.kind == noValue {
		return Range{Nulls: rows, Rows: rows}
	}
	return Range{Lower: v, Upper: v, HasLower: true, HasUpper: true, Rows: rows, NoNaN: true}
}

// Compare orders two values of one kind; ok is false if the kinds differ or a value
// is the zero Value.
func (v Value) Compare(w Value) (order int, ok bool) { return v.compare(w) }

// Integer returns the value of an int32, int64, date, time or timestamp column, in
// the units of Value; false for other values.
func (v Value) Integer() (int64, bool) { return v.integer, v.kind == integerValue }

// String renders the value. Two values of one column have the same text exactly if
// they are equal.
func (v Value) String() string {
	switch v.kind {
	case integerValue, booleanValue:
		return strconv.FormatInt(v.integer, 10)
	case floatValue:
		return strconv.FormatFloat(v.float, 'g', -1, 64)
	case textValue:
		return strconv.Quote(v.text)
	case decimalValue:
		return v.unscaled.String() + "e" + strconv.Itoa(-v.scale)
	case noValue:
	}
	return "none"
}
