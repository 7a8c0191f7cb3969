package operator

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// verdict says what a cast does with a value.
type verdict int

const (
	fits     verdict = iota // the cast has a result
	unfit                   // both engines fail: so does CAST, and the result of TRY_CAST is null
	disputed                // the engines disagree, or only one fails: so do CAST and TRY_CAST
)

// conversion fills the buffers of the result of a cast.
type conversion struct {
	convert func(c *casting) []*memory.Buffer
	size    func(sizes []int64, rows int) int64
}

// casting is one call of a cast.
type casting struct {
	Rows
	from     arrow.Array
	to       arrow.DataType
	try      bool
	validity *memory.Buffer // of the result
	err      error
}

// Cast binds CAST, or TRY_CAST, to the types of its operand and result.
func Cast(from, to arrow.DataType, try bool) (Bound, error) {
	if arrow.TypeEqual(from, to) {
		return Bound{Type: to, Run: same, Size: func([]int64, int) int64 { return 0 }}, nil
	}
	with := conversionOf(from, to)
	if with == nil {
		return Bound{}, fmt.Errorf("%s cannot be cast to %s", Name(from), Name(to))
	}
	run := func(operands []arrow.Array, rows Rows) (arrow.Array, error) {
		c := &casting{Rows: rows, from: operands[0], to: to, try: try, validity: rows.validity(operands[0])}
		buffers := with.convert(c)
		out := rows.Make(to, c.validity, buffers...)
		if c.err != nil {
			out.Release()
			return nil, c.err
		}
		return out, nil
	}
	return Bound{Type: to, Nullable: try, Run: run, Size: with.size}, nil
}

func same(operands []arrow.Array, _ Rows) (arrow.Array, error) {
	operands[0].Retain()
	return operands[0], nil
}

// conversionOf returns the conversion for a pair of types, or nil if there is none.
func conversionOf(from, to arrow.DataType) *conversion {
	switch to.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64:
		return toNumber(from, to)
	case arrow.BOOL:
		return toBoolean(from)
	case arrow.STRING:
		return toText(from)
	case arrow.DATE32:
		return toDate(from)
	case arrow.TIMESTAMP:
		return toTimestamp(from, to.(*arrow.TimestampType))
	case arrow.DECIMAL128:
		return toDecimal(from, to.(*arrow.Decimal128Type))
	default:
		return nil
	}
}

// check stops the cast, or makes the result null, if a row from begin to end does not fit. judge
// returns the verdict about a row's value.
func (c *casting) check(begin, end int, judge func(row int) verdict) {
	for row := begin; row < end && c.err == nil; row++ {
		if found := judge(row); found != fits {
			c.reject(row, found)
		}
	}
}

// reject handles a value that does not fit.
func (c *casting) reject(row int, found verdict) {
	switch {
	case !valid(c.validity, row):
		return
	case c.try && found == unfit:
		if c.validity == nil {
			c.validity = c.Bitmap(func(int, int) uint64 { return math.MaxUint64 })
		}
		c.validity.Bytes()[row>>3] &^= 1 << (uint(row) & 7)
		return
	case c.Active[row>>6]>>(uint(row)&63)&1 == 0:
		return
	}
	value := fault.Printable(c.from.ValueStr(row), maxShown) // a copy, since the memory of the array is reused
	if c.from.DataType().ID() == arrow.STRING {
		value = "'" + value + "'"
	}
	if found == disputed {
		c.err = failure("round, trim or rewrite the value first, as in CAST(floor(x) AS int)", "the cast of %s from %s to %s is not defined: SQL engines disagree about it", value, Name(c.from.DataType()), Name(c.to))
		return
	}
	c.err = failure("TRY_CAST makes such values null", "%s cannot be cast from %s to %s", value, Name(c.from.DataType()), Name(c.to))
}

// maxShown is the number of bytes of a text that a message shows.
const maxShown = 40

// fixed returns a conversion of rows one by one to values of fixed width. prepare returns a function
// that returns the result of a row.
func fixed[T arrow.FixedWidthType](to arrow.DataType, prepare func(a arrow.Array) func(row int) (T, verdict)) *conversion {
	convert := func(c *casting) []*memory.Buffer {
		values := c.buffer(c.Count * to.(arrow.FixedWidthDataType).Bytes())
		out, one := arrow.GetData[T](values.Bytes()), prepare(c.from)
		c.check(0, c.Count, func(row int) (found verdict) {
			out[row], found = one(row)
			return found
		})
		return []*memory.Buffer{values}
	}
	return &conversion{convert: convert, size: trySize(to)}
}

// trySize returns the Size of a cast to a type of fixed width.
func trySize(to arrow.DataType) func([]int64, int) int64 { return fixedSize(to) }

// booleans returns a conversion of rows one by one to booleans.
func booleans(prepare func(a arrow.Array) func(row int) (bool, verdict)) *conversion {
	convert := func(c *casting) []*memory.Buffer {
		one := prepare(c.from)
		values := c.Bitmap(func(begin, end int) (word uint64) {
			c.check(begin, end, func(row int) verdict {
				v, found := one(row)
				if v {
					word |= 1 << (uint(row-begin) & 63)
				}
				return found
			})
			return word
		})
		return []*memory.Buffer{values}
	}
	return &conversion{convert: convert, size: trySize(arrow.FixedWidthTypes.Boolean)}
}

// toBoolean returns the conversion to booleans: an integer other than 0 is TRUE.
func toBoolean(from arrow.DataType) *conversion {
	switch from.ID() {
	case arrow.INT32:
		return booleans(nonzero[int32])
	case arrow.INT64:
		return booleans(nonzero[int64])
	case arrow.STRING:
		return booleans(fromText(parseBoolean))
	default:
		return nil
	}
}

func nonzero[T int32 | int64](a arrow.Array) func(int) (bool, verdict) {
	values := arrow.GetValues[T](a.Data(), 1)
	return func(row int) (bool, verdict) { return values[row] != 0, fits }
}
