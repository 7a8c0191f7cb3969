package function

import (
	"bytes"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/operator"
)

const acceptsAlike = "values of one type, or numbers"

func conditionals() []definition {
	return []definition{
		{
			Signature: Signature{
				Name: "coalesce", Arguments: "a, …", Accepts: acceptsAlike, Result: "the type of the arguments",
				Meaning: "the first argument that is not null; null if all are null",
			},
			least: 1, most: -1, bind: bindCoalesce,
		},
		{
			Signature: Signature{
				Name: "nullif", Arguments: "a, b", Accepts: acceptsAlike + ", but no lists", Result: "the type of a",
				Meaning: "null if a equals b, otherwise a; NaN equals NaN",
			},
			least: 2, most: 2, bind: bindNullIf,
		},
		{
			Signature: Signature{
				Name: "greatest", Arguments: "a, b, …", Accepts: acceptsAlike + ", but no lists", Result: "the type of the arguments",
				Meaning: "the greatest argument, or null if all are null; nulls are ignored, and NaN is greater than all numbers",
			},
			least: 2, most: -1, bind: bindExtreme(theGreatest, 1),
		},
		{
			Signature: Signature{
				Name: "least", Arguments: "a, b, …", Accepts: acceptsAlike + ", but no lists", Result: "the type of the arguments",
				Meaning: "the least argument, or null if all are null; nulls are ignored, and NaN is greater than all numbers",
			},
			least: 2, most: -1, bind: bindExtreme(theLeast, -1),
		},
	}
}

func bindCoalesce(args []Argument) (Bound, error) {
	to, ok := commonType(typesOf(args)...)
	if !ok || !isSupported(to) {
		return Bound{}, errTypes{}
	}
	if isNumber(to) {
		return theFirst.bound(to, args), nil
	}
	return choice{conversion{to}, func(args []arrow.Array, rows int) func(int) int {
		absent := allNullsOf(args, rows)
		return func(row int) int {
			for i, a := range absent {
				if !a.at(row) {
					return i
				}
			}
			return len(args)
		}
	}}.bound(args, false), nil
}

// bindNullIf compares the arguments as their common type, but returns the first one unchanged.
func bindNullIf(args []Argument) (Bound, error) {
	common, ok := commonType(typesOf(args)...)
	if !ok || !isComparable(common) || args[0].Type.ID() == arrow.NULL {
		return Bound{}, errTypes{}
	}
	if isNumber(args[0].Type) && args[0].Literal == nil {
		return nullIfNumbers(args, conversion{common}), nil
	}
	as := conversion{common}
	c := choice{conversion{args[0].Type}, nil}
	bound := c.bound(args[:1], true)
	size := bound.Size
	bound.Size = func(sizes []int64, rows int) int64 { return size(sizes[:1], rows) + as.size(args, rows) }
	bound.Run = func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
		converted := as.run(of, mem)
		defer releaseAll(converted)
		compare := comparerOf(converted, rows)
		first, other := nullsOf(converted[0], rows), nullsOf(converted[1], rows)
		one := c
		one.choose = func([]arrow.Array, int) func(int) int {
			return func(row int) int {
				if first.at(row) || !other.at(row) && compare(0, row, 1, row) == 0 {
					return 1
				}
				return 0
			}
		}
		return one.run(of[:1], rows, mem)
	}
	return bound, nil
}

func nullIfNumbers(args []Argument, as conversion) Bound {
	own := args[0].Type
	return Bound{
		Type: own, Nullable: true,
		Size: func(_ []int64, rows int) int64 { return fixedSize(rows, arrow.Int64SizeBytes) + as.size(args, rows) },
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			converted := as.run(of, mem)
			defer releaseAll(converted)
			o := newOutput(rows, mem)
			defer o.close()
			v := validity{o.zeroed(bitmapBytes(rows))}
			switch as.to.ID() {
			case arrow.INT32:
				setUnequal(v, wordsOf[int32](converted, rows), rows)
			case arrow.INT64:
				setUnequal(v, wordsOf[int64](converted, rows), rows)
			case arrow.FLOAT32:
				setUnequal(v, wordsOf[float32](converted, rows), rows)
			default:
				setUnequal(v, wordsOf[float64](converted, rows), rows)
			}
			width := own.(arrow.FixedWidthDataType).Bytes() //nolint:forcetypeassert // a number
			out := o.buffer(rows * width)
			if width == arrow.Int32SizeBytes {
				copyValid(values[int32](out), wordsOf[int32](of[:1], rows)[0], v)
			} else {
				copyValid(values[int64](out), wordsOf[int64](of[:1], rows)[0], v)
			}
			return o.array(own, v, out), nil
		},
	}
}

// setUnequal sets the bits of rows in which the first of two arguments is not null and does not equal the second one.
func setUnequal[T number](v validity, of []words[T], rows int) {
	eachWord(rows, func(begin, end int, all uint64) {
		x, y, equal := of[0].values(begin, end), of[1].values(begin, end), uint64(0)
		for i := range x {
			equal |= equals(x[i], y[i]) << uint(i)
		}
		operator.OrBits(v.buffer.Bytes(), begin, all&of[0].valid(begin, end)&^(equal&of[1].valid(begin, end)))
	})
}

// copyValid copies values, and writes zeros under nulls.
func copyValid[T number](out []T, from words[T], v validity) {
	eachWord(len(out), func(begin, end int, all uint64) {
		clear(out[begin:end])
		take(out[begin:end], from.values(begin, end), all&operator.LoadBits(v.buffer.Bytes(), begin, end-begin))
	})
}

// bindExtreme binds greatest, with the sign 1, and least, with the sign -1.
func bindExtreme(ofNumbers choosing, sign int) func([]Argument) (Bound, error) {
	return func(args []Argument) (Bound, error) {
		to, ok := commonType(typesOf(args)...)
		if !ok || !isComparable(to) {
			return Bound{}, errTypes{}
		}
		if isNumber(to) {
			return ofNumbers.bound(to, args), nil
		}
		return choice{conversion{to}, func(args []arrow.Array, rows int) func(int) int {
			compare, absent := comparerOf(args, rows), allNullsOf(args, rows)
			return func(row int) int {
				best := len(args)
				for i, a := range absent {
					if !a.at(row) && (best == len(args) || compare(best, row, i, row)*sign < 0) {
						best = i
					}
				}
				return best
			}
		}}.bound(args, false), nil
	}
}

// comparer compares value x of array i with value y of array j. Values under nulls compare in any way.
type comparer func(i, x, j, y int) int

// comparerOf returns the comparer of arrays of one type, which have numbers of rows or are literals. It
// takes memory for each array, and not for each pair of arrays: a call may have thousands of arguments.
func comparerOf(arrays []arrow.Array, rows ...int) comparer {
	switch arrays[0].DataType().ID() {
	case arrow.INT32, arrow.DATE32:
		return compared(arrays, rows, vectorOf[int32], vector[int32].at, compareNumbers[int32])
	case arrow.FLOAT32:
		return compared(arrays, rows, vectorOf[float32], vector[float32].at, compareNumbers[float32])
	case arrow.FLOAT64:
		return compared(arrays, rows, vectorOf[float64], vector[float64].at, compareNumbers[float64])
	case arrow.DECIMAL128:
		return compared(arrays, rows, vectorOf[decimal128.Num], vector[decimal128.Num].at, decimal128.Num.Cmp)
	case arrow.BOOL:
		return compared(arrays, rows, flagsOf, flags.at, compareBools)
	case arrow.STRING, arrow.BINARY:
		return compared(arrays, rows, textsOf, texts.at, bytes.Compare)
	default: // int64, timestamps and times
		return compared(arrays, rows, vectorOf[int64], vector[int64].at, compareNumbers[int64])
	}
}

// compared makes a comparer. The last number of rows is that of all further arrays.
func compared[V, T any](arrays []arrow.Array, rows []int, of func(arrow.Array, int) V, at func(V, int) T, compare func(x, y T) int) comparer {
	all := make([]V, len(arrays))
	for i, a := range arrays {
		all[i] = of(a, rows[min(i, len(rows)-1)])
	}
	return func(i, x, j, y int) int { return compare(at(all[i], x), at(all[j], y)) }
}

// compareNumbers orders NaN above all numbers. 0 and -0 are equal.
func compareNumbers[T int32 | int64 | float32 | float64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case x == y:
		return 0
	}
	isNaN := func(v T) int {
		if v != v {
			return 1
		}
		return 0
	}
	return isNaN(x) - isNaN(y)
}

func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	default:
		return 1
	}
}

func bindIsNaN(args []Argument) (Bound, error) {
	switch args[0].Type.ID() {
	case arrow.FLOAT32:
		return tests(func(x vector[float32], row int) bool { return math.IsNaN(float64(x.at(row))) }), nil
	case arrow.FLOAT64:
		return tests(func(x vector[float64], row int) bool { return math.IsNaN(x.at(row)) }), nil
	default:
		return Bound{}, errTypes{}
	}
}

// tests returns a function of one argument with boolean results.
func tests[T arrow.FixedWidthType](test func(x vector[T], row int) bool) Bound {
	return Bound{
		Type: boolType(),
		Size: func(_ []int64, rows int) int64 { return bitSize(rows) },
		Run: func(args []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			o := newOutput(rows, mem)
			defer o.close()
			v, x := o.common(args), vectorOf[T](args[0], rows)
			out := o.zeroed(bitmapBytes(rows))
			for i := range rows {
				if test(x, i) {
					bitutil.SetBit(out.Bytes(), i)
				}
			}
			return o.array(boolType(), v, out), nil
		},
	}
}
