package function

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const acceptsNumber = "a number"

func mathematics() []definition {
	return []definition{
		{
			Signature: Signature{
				Name: "isnan", Arguments: "x", Accepts: "a float", Result: "boolean", Meaning: "whether x is NaN; null if x is null",
				Spark: "if(x IS NULL, NULL, isnan(x))",
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
				Name: "floor", Arguments: "x", Accepts: acceptsNumber, Result: "long for integers, otherwise the type of x",
				Meaning: "the greatest whole number that is not above x; it fails for floats outside of the range of long and for NaN",
			},
			least: 1, most: 1, bind: bindRounding("floor", math.Floor),
		},
		{
			Signature: Signature{
				Name: "ceil", Arguments: "x", Accepts: acceptsNumber, Result: "long for integers, otherwise the type of x",
				Meaning: "the least whole number that is not below x; it fails for floats outside of the range of long and for NaN",
			},
			least: 1, most: 1, bind: bindRounding("ceil", math.Ceil),
		},
		{
			Signature: Signature{
				Name: "round", Arguments: "x", Accepts: acceptsNumber, Result: "the type of x",
				Meaning: "the whole number nearest to x; halves are rounded away from zero",
			},
			least: 1, most: 1, bind: bindRound,
		},
		double("sign", "-1, 0 or 1, like the sign of x; it fails for NaN", sign),
		double("sqrt", "the square root; NaN for negative numbers", total(math.Sqrt)),
		double("exp", "e to the power of x", total(math.Exp)),
		double("ln", "the natural logarithm; it fails unless x is positive or NaN", logarithm(log)),
		double("log2", "the logarithm to base 2; it fails unless x is positive or NaN", logarithm(log2)),
		double("log10", "the logarithm to base 10; it fails unless x is positive or NaN", logarithm(log10)),
		double("sin", "the sine of an angle in radians; it fails for angles beyond 2^29", angular(sine)),
		double("cos", "the cosine of an angle in radians; it fails for angles beyond 2^29", angular(cosine)),
		{
			Signature: Signature{
				Name: "power", Arguments: "x, y", Accepts: "two numbers", Result: "double",
				Meaning: "x to the power of y; it fails if x is 1 or -1 and y is NaN or infinite",
			},
			least: 2, most: 2, bind: bindPower,
		},
	}
}

// double defines a function from numbers, which are converted to float64, to float64.
func double(name, meaning string, f func(float64) (float64, *refusal)) definition {
	return definition{
		Signature: Signature{Name: name, Arguments: "x", Accepts: acceptsNumber, Result: "double", Meaning: meaning},
		least:     1, most: 1,
		bind: func(args []Argument) (Bound, error) {
			switch args[0].Type.ID() {
			case arrow.INT32:
				return unary(name, float64Type(), partial(func(x int32) (float64, *refusal) { return f(float64(x)) })), nil
			case arrow.INT64:
				return unary(name, float64Type(), partial(func(x int64) (float64, *refusal) { return f(float64(x)) })), nil
			case arrow.FLOAT32:
				return unary(name, float64Type(), partial(func(x float32) (float64, *refusal) { return f(float64(x)) })), nil
			case arrow.FLOAT64:
				return unary(name, float64Type(), partial(f)), nil
			default:
				return Bound{}, errTypes{}
			}
		},
	}
}

func total(f func(float64) float64) func(float64) (float64, *refusal) {
	return func(x float64) (float64, *refusal) { return f(x), nil }
}

func sign(x float64) (float64, *refusal) {
	switch {
	case x > 0:
		return 1, nil
	case x < 0:
		return -1, nil
	case x == 0:
		return 0, nil
	default:
		return 0, &refusal{"differs between engines", "replace NaN, as in CASE WHEN isnan(x) THEN NULL ELSE sign(x) END"}
	}
}

// logarithm refuses arguments for which Spark returns null, and DuckDB infinity or NaN.
func logarithm(f func(float64) float64) func(float64) (float64, *refusal) {
	outside := &refusal{"is not defined", "the argument must be positive: use ln(greatest(x, 1e-9)), ln(x + 1), or a CASE"}
	return func(x float64) (float64, *refusal) {
		if x <= 0 {
			return 0, outside
		}
		return f(x), nil
	}
}

// log is like math.Log, which is wrong for subnormal numbers on amd64.
func log(x float64) float64 {
	if x < 0x1p-1022 {
		return logarithmOf(x).high
	}
	return math.Log(x)
}

// log2 is exact for powers of two.
func log2(x float64) float64 {
	if math.IsInf(x, 1) || math.IsNaN(x) {
		return x
	}
	return logarithmOf(x).times(pair{1 / math.Ln2, 2.0355273740931033e-17}).high
}

// log10 is exact for powers of ten.
func log10(x float64) float64 {
	if math.IsInf(x, 1) || math.IsNaN(x) {
		return x
	}
	return logarithmOf(x).times(pair{1 / math.Ln10, 1.098319650216765e-17}).high
}

// largestAngle is the largest angle for which Go's sine and cosine are precise.
const largestAngle = 1 << 29

// angular refuses large angles.
func angular(f func(float64) float64) func(float64) (float64, *refusal) {
	large := &refusal{"is out of range", "angles may be at most 2^29 radians"}
	return func(x float64) (float64, *refusal) {
		if math.Abs(x) > largestAngle {
			return 0, large
		}
		return f(x), nil
	}
}

func bindRound(args []Argument) (Bound, error) {
	dt := args[0].Type
	switch dt.ID() {
	case arrow.INT32:
		return unary("round", dt, each(func(x int32) int32 { return x })), nil
	case arrow.INT64:
		return unary("round", dt, each(func(x int64) int64 { return x })), nil
	case arrow.FLOAT32:
		return unary("round", dt, each(func(x float32) float32 { return float32(math.Round(float64(x))) })), nil
	case arrow.FLOAT64:
		return unary("round", dt, each(math.Round)), nil
	default:
		return Bound{}, errTypes{}
	}
}

func bindPower(args []Argument) (Bound, error) {
	if !isNumber(args[0].Type) || !isNumber(args[1].Type) {
		return Bound{}, errTypes{}
	}
	as := conversion{float64Type()}
	return Bound{
		Type: as.to,
		Size: func(_ []int64, rows int) int64 { return as.size(args, rows) + fixedSize(rows, arrow.Float64SizeBytes) },
		Run: func(of []arrow.Array, rows int, mem memory.Allocator) (arrow.Array, error) {
			converted := as.run(of, mem)
			defer releaseAll(converted)
			o := newOutput(rows, mem)
			defer o.close()
			v, x, y := o.common(of), vectorOf[float64](converted[0], rows), vectorOf[float64](converted[1], rows)
			buffer := o.buffer(rows * arrow.Float64SizeBytes)
			out := values[float64](buffer)
			for i := range out {
				var why *refusal
				if out[i], why = power(x.at(i), y.at(i)); why != nil && v.valid(i) {
					return nil, failed("power", of, rows, i, why)
				}
			}
			return o.array(as.to, v, buffer), nil
		},
	}, nil
}

func bindAbs(args []Argument) (Bound, error) {
	dt := args[0].Type
	switch dt.ID() {
	case arrow.INT32:
		return unary("abs", dt, partial(absInteger[int32])), nil
	case arrow.INT64:
		return unary("abs", dt, partial(absInteger[int64])), nil
	case arrow.FLOAT32:
		return unary("abs", dt, absFloats[float32]), nil
	case arrow.FLOAT64:
		return unary("abs", dt, absFloats[float64]), nil
	default:
		return Bound{}, errTypes{}
	}
}

// absFloats is a kernel, faster than one that calls a function for each value.
func absFloats[T float32 | float64](out []T, in vector[T], _ validity) (int, *refusal) {
	for i := range out {
		out[i] = T(math.Abs(float64(in.at(i))))
	}
	return 0, nil
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
	outside := &refusal{"is NaN or out of the range of long", "replace such values, as in CASE WHEN abs(x) < 9e18 THEN " + name + "(x) END"}
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
