package function

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

const acceptsNumber = "a number"

func mathematics() []definition {
	return []definition{
		{
			Signature: Signature{
				Name: "isnan", Arguments: "x", Accepts: "a float", Result: "boolean", Meaning: "whether x is NaN; null if x is null",
			},
			least: 1, most: 1, bind: bindIsNaN,
		},
		{
			Signature: Signature{
				Name: "abs", Arguments: "x", Accepts: acceptsNumber, Result: "the type of x",
				Meaning: "x without its sign; it fails for the least integer of the type",
			},
			least: 1, most: 1, bind: bindAbs,
		},
		{
			Signature: Signature{
				Name: "floor", Arguments: "x", Accepts: acceptsNumber, Result: "int64 for integers, otherwise the type of x",
				Meaning: "the greatest whole number that is not above x; it fails for floats outside of the range of int64 and for NaN",
			},
			least: 1, most: 1, bind: bindRounding("floor", math.Floor),
		},
		{
			Signature: Signature{
				Name: "ceil", Arguments: "x", Accepts: acceptsNumber, Result: "int64 for integers, otherwise the type of x",
				Meaning: "the least whole number that is not below x; it fails for floats outside of the range of int64 and for NaN",
			},
			least: 1, most: 1, bind: bindRounding("ceil", math.Ceil),
		},
	}
}

func bindAbs(args []Argument) (Bound, error) {
	dt := args[0].Type
	switch dt.ID() {
	case arrow.INT32:
		return unary("abs", dt, partial(absInteger[int32])), nil
	case arrow.INT64:
		return unary("abs", dt, partial(absInteger[int64])), nil
	case arrow.FLOAT32:
		return unary("abs", dt, each(func(x float32) float32 { return float32(math.Abs(float64(x))) })), nil
	case arrow.FLOAT64:
		return unary("abs", dt, each(math.Abs)), nil
	default:
		return Bound{}, errTypes{}
	}
}

func absInteger[T int32 | int64](x T) (T, *refusal) {
	switch {
	case x >= 0:
		return x, nil
	case -x < 0:
		return 0, &refusal{"is out of the range of its type", "cast the argument to a wider type"}
	default:
		return -x, nil
	}
}

// limit64 is 2^63, the least float above all values of int64.
const limit64 = 1 << 63

// bindRounding binds functions that return whole numbers. Spark returns them as int64, and DuckDB as floats: both
// agree for floats in the range of int64.
func bindRounding(name string, round func(float64) float64) func([]Argument) (Bound, error) {
	outside := &refusal{"is NaN or out of the range of int64", "replace such values, as in CASE WHEN abs(x) < 9e18 THEN " + name + "(x) END"}
	return func(args []Argument) (Bound, error) {
		switch args[0].Type.ID() {
		case arrow.INT32:
			return unary(name, int64Type(), each(func(x int32) int64 { return int64(x) })), nil
		case arrow.INT64:
			return unary(name, int64Type(), each(func(x int64) int64 { return x })), nil
		case arrow.FLOAT32:
			return unary(name, args[0].Type, partial(func(x float32) (float32, *refusal) {
				y := round(float64(x))
				if !(y >= -limit64 && y < limit64) {
					return 0, outside
				}
				return float32(y), nil
			})), nil
		case arrow.FLOAT64:
			return unary(name, args[0].Type, partial(func(x float64) (float64, *refusal) {
				y := round(x)
				if !(y >= -limit64 && y < limit64) {
					return 0, outside
				}
				return y, nil
			})), nil
		default:
			return Bound{}, errTypes{}
		}
	}
}
