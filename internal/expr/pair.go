package expr

import (
	"bytes"
	"cmp"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// pairMatcherOf returns the matcher that compares two columns of one family. Unlike
// the matcher of a leaf, it never needs negation.
func pairMatcherOf(o op, s columnType) pairMatcher {
	switch s.family {
	case floats:
		return matchPairs(o, floatAt, compareFloats)
	case decimals:
		return matchPairs(o, func(a arrow.Array) func(int) decimal128.Num {
			rows := arrow.GetValues[decimal128.Num](a.Data(), 1)
			return func(i int) decimal128.Num { return rows[i] }
		}, decimal128.Num.Cmp)
	case texts, binaries:
		return matchPairs(o, bytesAt, bytes.Compare)
	case opaque, nested, integers, booleans, dates, times, timestamp:
	}
	return matchPairs(o, integerAt, cmp.Compare[int64])
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
