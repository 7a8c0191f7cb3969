package operator

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// number is a Go type of numeric values.
type number interface {
	int32 | int64 | float32 | float64
}

// blockRows is the number of rows that are computed at once: a block of each operand fits in the
// first-level cache, and takes little of the heap.
const blockRows = 256

// block is memory for the values of an operand that has another type than the operation, or that is
// a literal.
type block[T number] [blockRows]T

// loop computes a block of results. It returns true if a row may have failed; values under nulls may
// have failed, too.
type loop[T number] func(left, right, out []T) (suspect bool)

// Binary binds an operator to the types of its operands. Operands of types int and int make an
// int, and int and long a long. Float and float make a float, other pairs with a float or double
// make a double, and so does each division.
func Binary(op Op, left, right arrow.DataType) (Bound, error) {
	if op == Concatenate {
		return concatenation(left, right)
	}
	if dt := shifted(op, left, right); dt != nil {
		return dates(op, dt), nil
	}
	common := Common(left, right)
	if common == nil || !isNumber(common) {
		return Bound{}, undefined(op, left, right)
	}
	if op == Divide {
		common = arrow.PrimitiveTypes.Float64
	}
	switch common.ID() {
	case arrow.INT32:
		return integers[int32](op, common, multiplyInts), nil
	case arrow.INT64:
		return integers[int64](op, common, multiplyLongs), nil
	case arrow.FLOAT32:
		return floats[float32](op, common), nil
	default:
		return floats[float64](op, common), nil
	}
}

// undefined returns the error for operands of other types.
func undefined(op Op, left, right arrow.DataType) error {
	remedy := "operands are numbers"
	switch is := func(id arrow.Type) bool { return left.ID() == id || right.ID() == id }; {
	case is(arrow.DECIMAL128):
		remedy = "cast decimals to double, as in CAST(x AS double)"
	case left.ID() == arrow.DATE32 && right.ID() == arrow.DATE32:
		remedy = "the days from b to a are datediff('day', b, a)"
	case is(arrow.DATE32):
		remedy = "a date is moved by an int, as in x + 7 or x + CAST(days AS int)"
	case is(arrow.TIMESTAMP):
		remedy = "use unix_seconds or unix_micros, and the inverse timestamp_seconds or timestamp_micros"
	case is(arrow.BOOL):
		remedy = "cast conditions to int, as in CAST(x AS int)"
	case is(arrow.STRING):
		remedy = "operands are numbers; texts are joined by ||"
	}
	return fmt.Errorf("%s %s %s is not defined: %s", Name(left), op, Name(right), remedy)
}

// search returns the first row of a block, from a row on, that fails, or the number of rows.
type search[T number] func(left, right []T, from int) int

// searchFor returns the search for operands that fail.
func searchFor[T number](fails func(x, y T) bool) search[T] {
	return func(left, right []T, from int) int {
		for from < len(left) && !fails(left[from], right[from]) {
			from++
		}
		return from
	}
}

// searchZero is the search for a divisor of 0, which values under nulls often are.
func searchZero[T number](_, right []T, from int) int {
	for from < len(right) && right[from] != 0 {
		from++
	}
	return from
}

// Common returns the type of results that may be either of two types, or nil if there is none. It
// is the wider one of the types on which DuckDB and Spark settle.
func Common(a, b arrow.DataType) arrow.DataType {
	switch {
	case arrow.TypeEqual(a, b), b.ID() == arrow.NULL:
		return a
	case a.ID() == arrow.NULL:
		return b
	case !isNumber(a) || !isNumber(b):
		return nil
	case isInteger(a) && isInteger(b):
		return arrow.PrimitiveTypes.Int64
	default:
		return arrow.PrimitiveTypes.Float64
	}
}

func isInteger(dt arrow.DataType) bool { return dt.ID() == arrow.INT32 || dt.ID() == arrow.INT64 }

func isNumber(dt arrow.DataType) bool {
	return isInteger(dt) || dt.ID() == arrow.FLOAT32 || dt.ID() == arrow.FLOAT64
}

// shifted returns the type of a date that is moved by days, or nil for other operands.
func shifted(op Op, left, right arrow.DataType) arrow.DataType {
	switch {
	case left.ID() == arrow.DATE32 && right.ID() == arrow.INT32 && (op == Add || op == Subtract):
		return left
	case left.ID() == arrow.INT32 && right.ID() == arrow.DATE32 && op == Add:
		return right
	default:
		return nil
	}
}

// dates moves dates by days.
func dates(op Op, dt arrow.DataType) Bound {
	move := func(x, y int32) int64 { return int64(x) + int64(y) }
	if op == Subtract {
		move = func(x, y int32) int64 { return int64(x) - int64(y) }
	}
	outside := func(x, y int32) bool { day := move(x, y); return day < minDay || day > maxDay }
	compute := func(left, right, out []int32) (suspect bool) {
		for i := range out {
			out[i] = int32(move(left[i], right[i]))
			suspect = suspect || outside(left[i], right[i])
		}
		return suspect
	}
	return pairwise(op, dt, compute, searchFor(outside))
}

func integers[T int32 | int64](op Op, dt arrow.DataType, multiply loop[T]) Bound {
	switch op {
	case Add:
		return pairwise(op, dt, addIntegers[T], searchFor(func(x, y T) bool { return (x^(x+y))&(y^(x+y)) < 0 }))
	case Subtract:
		return pairwise(op, dt, subtractIntegers[T], searchFor(func(x, y T) bool { return (x^y)&(x^(x-y)) < 0 }))
	case Multiply:
		return pairwise(op, dt, multiply, searchFor(func(x, y T) bool { var out [1]T; return multiply([]T{x}, []T{y}, out[:]) }))
	case Divide, Remainder, Concatenate:
	}
	// The quotient of the smallest integer and -1 does not fit, with which DuckDB fails.
	return pairwise(op, dt, remainderIntegers[T], searchFor(func(x, y T) bool { return y == 0 || y == -1 && x == -x && x != 0 }))
}

func floats[T float32 | float64](op Op, dt arrow.DataType) Bound {
	switch op {
	case Add:
		return pairwise(op, dt, addFloats[T], nil)
	case Subtract:
		return pairwise(op, dt, subtractFloats[T], nil)
	case Multiply:
		return pairwise(op, dt, multiplyFloats[T], nil)
	case Divide:
		return pairwise(op, dt, divideFloats[T], searchZero[T])
	case Remainder, Concatenate:
	}
	return pairwise(op, dt, remainderFloats[T], searchZero[T])
}

// pairwise makes an operator of a loop and the search for rows that fail.
func pairwise[T number](op Op, dt arrow.DataType, compute loop[T], find search[T]) Bound {
	run := func(operands []arrow.Array, rows Rows) (arrow.Array, error) {
		validity := rows.validity(operands...)
		values := rows.buffer(rows.Count * dt.(arrow.FixedWidthDataType).Bytes())
		out := arrow.GetData[T](values.Bytes())
		var scratch [2]block[T]
		left, right := readerOf(operands[0], rows, &scratch[0]), readerOf(operands[1], rows, &scratch[1])
		for from := 0; from < rows.Count; from += blockRows {
			to := min(from+blockRows, rows.Count)
			x, y := left(from, to), right(from, to)
			if !compute(x, y, out[from:to]) {
				continue
			}
			for at := find(x, y, 0); at < len(x); at = find(x, y, at+1) {
				if rows.matters(validity, from+at) {
					err := arithmeticFailure(op, dt, x[at], y[at])
					rows.Make(dt, validity, values).Release()
					return nil, err
				}
			}
		}
		return rows.Make(dt, validity, values), nil
	}
	return Bound{Type: dt, Run: run, Size: fixedSize(dt)}
}

func arithmeticFailure[T number](op Op, dt arrow.DataType, x, y T) error {
	switch {
	case y == 0 && (op == Divide || op == Remainder):
		return failure("make a divisor of 0 null with nullif(divisor, 0), which makes the result null, too", "%v %s 0 is a division by zero", x, op)
	case dt.ID() == arrow.DATE32:
		return failure("filter such rows out, or choose another value with CASE", "a date of day %v %s %v is not within the years 1 to 9999", x, op, y)
	case dt.ID() == arrow.INT32:
		return failure("cast an operand to long, as in CAST(x AS long)", "the result of %v %s %v is not within int", x, op, y)
	default:
		return failure("cast an operand to double, as in CAST(x AS double)", "the result of %v %s %v is not within long", x, op, y)
	}
}

// readerOf returns a function that returns the values of the rows of a block as type T. The values
// are valid until the next call.
func readerOf[T number](a arrow.Array, rows Rows, scratch *block[T]) func(from, to int) []T {
	var convert func(from, to int)
	switch a.DataType().ID() {
	case arrow.INT32, arrow.DATE32:
		convert = converterOf[int32](a, scratch)
	case arrow.INT64:
		convert = converterOf[int64](a, scratch)
	case arrow.FLOAT32:
		convert = converterOf[float32](a, scratch)
	default:
		convert = converterOf[float64](a, scratch)
	}
	if a.Len() != rows.Count {
		convert(0, 1)
		for i := range scratch {
			scratch[i] = scratch[0]
		}
		return func(from, to int) []T { return scratch[:to-from] }
	}
	if own, ok := any(arrow.GetDataType[T]()).(arrow.DataType); ok && own.ID() == a.DataType().ID() {
		values := arrow.GetValues[T](a.Data(), 1)
		return func(from, to int) []T { return values[from:to] }
	}
	return func(from, to int) []T {
		convert(from, to)
		return scratch[:to-from]
	}
}

func converterOf[F, T number](a arrow.Array, scratch *block[T]) func(from, to int) {
	values := arrow.GetValues[F](a.Data(), 1)
	return func(from, to int) { convertAll(values[from:to], scratch[:to-from]) }
}

func addIntegers[T int32 | int64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	var overflow T
	for i := range out {
		x, y := left[i], right[i]
		sum := x + y
		overflow |= (x ^ sum) & (y ^ sum)
		out[i] = sum
	}
	return overflow < 0
}

func subtractIntegers[T int32 | int64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	var overflow T
	for i := range out {
		x, y := left[i], right[i]
		difference := x - y
		overflow |= (x ^ y) & (x ^ difference)
		out[i] = difference
	}
	return overflow < 0
}

func multiplyInts(left, right, out []int32) bool {
	left, right = left[:len(out)], right[:len(out)]
	var overflow int64
	for i := range out {
		product := int64(left[i]) * int64(right[i])
		overflow |= product>>31 ^ product>>63
		out[i] = int32(product)
	}
	return overflow != 0
}

func multiplyLongs(left, right, out []int64) bool {
	left, right = left[:len(out)], right[:len(out)]
	var overflow int64
	for i := range out {
		x, y := left[i], right[i]
		high, low := bits.Mul64(uint64(x), uint64(y))
		signed := int64(high) - x>>63&y - y>>63&x // the high word of the signed product
		overflow |= signed ^ int64(low)>>63
		out[i] = int64(low)
	}
	return overflow != 0
}

func remainderIntegers[T int32 | int64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	suspect := false
	for i := range out {
		divisor := right[i]
		if divisor == 0 || divisor == -1 {
			suspect = true
			out[i] = 0
			continue
		}
		out[i] = left[i] % divisor
	}
	return suspect
}

func addFloats[T float32 | float64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	for i := range out {
		out[i] = left[i] + right[i]
	}
	return false
}

func subtractFloats[T float32 | float64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	for i := range out {
		out[i] = left[i] - right[i]
	}
	return false
}

func multiplyFloats[T float32 | float64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	for i := range out {
		out[i] = left[i] * right[i]
	}
	return false
}

func divideFloats[T float32 | float64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	zero := false
	for i := range out {
		divisor := right[i]
		if divisor == 0 {
			zero = true
		}
		out[i] = left[i] / divisor
	}
	return zero
}

func remainderFloats[T float32 | float64](left, right, out []T) bool {
	left, right = left[:len(out)], right[:len(out)]
	zero := false
	for i := range out {
		zero = zero || right[i] == 0
		out[i] = T(math.Mod(float64(left[i]), float64(right[i])))
	}
	return zero
}

// Negate binds the unary minus to the type of its operand.
func Negate(operand arrow.DataType) (Bound, error) {
	switch operand.ID() {
	case arrow.INT32:
		return negation[int32](operand), nil
	case arrow.INT64:
		return negation[int64](operand), nil
	case arrow.FLOAT32:
		return negation[float32](operand), nil
	case arrow.FLOAT64:
		return negation[float64](operand), nil
	default:
		return Bound{}, fmt.Errorf("-%s is not defined: the operand is a number", Name(operand))
	}
}

func negation[T number](dt arrow.DataType) Bound {
	// Only the smallest integer equals its own negative, apart from 0.
	negate := func(_, right, out []T) bool {
		suspect := false
		for i, v := range right[:len(out)] {
			out[i] = -v
			suspect = suspect || v == -v && v != 0
		}
		return suspect
	}
	bound := pairwise(Subtract, dt, negate, searchFor(func(_, x T) bool { return x == -x && x != 0 }))
	run := bound.Run
	bound.Run = func(operands []arrow.Array, rows Rows) (arrow.Array, error) {
		return run([]arrow.Array{zero(dt), operands[0]}, rows)
	}
	return bound
}

// zero returns the literal 0.
func zero(dt arrow.DataType) arrow.Array {
	value := memory.NewBufferBytes(make([]byte, arrow.Int64SizeBytes))
	return array.MakeFromData(array.NewData(dt, 1, []*memory.Buffer{nil, value}, nil, 0, 0))
}
