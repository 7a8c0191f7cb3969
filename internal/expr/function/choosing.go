package function

import (
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/operator"
)

// number is a Go type of numeric values.
type number interface {
	int32 | int64 | float32 | float64
}

const (
	wordRows = 64             // the number of rows whose validity bits make a word
	allRows  = math.MaxUint64 // the bits of all rows of a word
)

// eachWord visits the rows of each word, from begin to end. The bits of these rows are set in all.
func eachWord(rows int, visit func(begin, end int, all uint64)) {
	for begin := 0; begin < rows; begin += wordRows {
		end := min(begin+wordRows, rows)
		visit(begin, end, allRows>>(wordRows-(end-begin)))
	}
}

// words has the values and the validity bits of an argument, for loops over the rows of a word.
type words[T number] struct {
	all     []T // the value of each row; of a literal, its value for each row of a word
	literal bool
	valid   func(begin, end int) uint64 // higher bits are arbitrary
}

func wordsOf[T number](args []arrow.Array, rows int) []words[T] {
	out := make([]words[T], len(args))
	for i, a := range args {
		v := vectorOf[T](a, rows)
		if v.mask != 0 {
			out[i] = words[T]{all: v.values, valid: operator.Validity(a)}
			continue
		}
		out[i] = words[T]{all: make([]T, wordRows), literal: true}
		for row := range out[i].all {
			out[i].all[row] = v.values[0]
		}
		word := uint64(allRows)
		if a.IsNull(0) {
			word = 0
		}
		out[i].valid = func(int, int) uint64 { return word }
	}
	return out
}

// values returns the values of the rows from begin to end, which are in one word.
func (w words[T]) values(begin, end int) []T {
	if w.literal {
		return w.all[:end-begin]
	}
	return w.all[begin:end]
}

// choosing is a function that chooses one of its arguments, which are numbers. It compares the value that it has
// chosen among the first arguments with the next argument. Nulls are not chosen.
type choosing int

const (
	theFirst choosing = iota
	theGreatest
	theLeast
)

// bound returns the function. The arguments are converted to the type of the result.
func (f choosing) bound(to arrow.DataType, args []Argument) Bound {
	as := conversion{to}
	return Bound{
		Type: to,
		Size: func(_ []int64, rows int) int64 { return as.size(args, rows) + fixedSize(rows, arrow.Int64SizeBytes) },
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			converted := as.run(of, mem)
			defer releaseAll(converted)
			o := newOutput(rows, mem)
			defer o.close()
			switch to.ID() {
			case arrow.INT32:
				return chosen[int32](f, to, converted, o), nil
			case arrow.INT64:
				return chosen[int64](f, to, converted, o), nil
			case arrow.FLOAT32:
				return chosen[float32](f, to, converted, o), nil
			default:
				return chosen[float64](f, to, converted, o), nil
			}
		},
	}
}

// chosen returns the chosen values, and zeros under nulls.
func chosen[T number](f choosing, to arrow.DataType, args []arrow.Array, o *output) arrow.Array {
	buffer := o.zeroed(o.rows * to.(arrow.FixedWidthDataType).Bytes()) //nolint:forcetypeassert // a number
	out, v, columns := values[T](buffer), validity{o.zeroed(bitmapBytes(o.rows))}, wordsOf[T](args, o.rows)
	eachWord(o.rows, func(begin, end int, all uint64) {
		block, valid := out[begin:end], uint64(0)
		for _, c := range columns {
			next, nextValid := c.values(begin, end), c.valid(begin, end)&all
			take(block, next, nextValid&^valid)
			switch both := valid & nextValid; f {
			case theFirst:
			case theGreatest:
				takeGreater(block, next, both)
			case theLeast:
				takeLess(block, next, both)
			}
			valid |= nextValid
		}
		operator.OrBits(v.buffer.Bytes(), begin, valid)
	})
	return o.array(to, v, buffer)
}

// take copies the values of some rows of a word.
func take[T number](to, from []T, rows uint64) {
	if bits.OnesCount64(rows) == len(to) {
		copy(to, from)
		return
	}
	for ; rows != 0; rows &= rows - 1 {
		row := bits.TrailingZeros64(rows)
		to[row] = from[row]
	}
}

// takeGreater copies the values of some rows of a word that are greater, and takeLess those that are less. They do
// not branch, because a processor cannot predict comparisons of random values.
func takeGreater[T number](to, from []T, rows uint64) {
	from = from[:len(to)]
	for i, x := range to {
		to[i] = [2]T{x, from[i]}[exceeds(from[i], x)&(rows>>uint(i))&1]
	}
}

func takeLess[T number](to, from []T, rows uint64) {
	from = from[:len(to)]
	for i, x := range to {
		to[i] = [2]T{x, from[i]}[exceeds(x, from[i])&(rows>>uint(i))&1]
	}
}

// exceeds returns 1 if x is greater than y, and otherwise 0. NaN is greater than all numbers.
func exceeds[T number](x, y T) uint64 { return bit(x > y) | bit(x != x)&^bit(y != y) }

// equals returns 1 if x equals y, and otherwise 0. NaN equals NaN.
func equals[T number](x, y T) uint64 { return bit(x == y) | bit(x != x)&bit(y != y) }

// bit returns 1 for true, without a branch.
func bit(b bool) (n uint64) {
	if b {
		n = 1
	}
	return n
}
