package operator

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// toNumber returns the conversion to an integer or a float.
func toNumber(from, to arrow.DataType) *conversion {
	switch to.ID() {
	case arrow.INT32:
		return toNumberOf[int32](from, to)
	case arrow.INT64:
		return toNumberOf[int64](from, to)
	case arrow.FLOAT32:
		return toNumberOf[float32](from, to)
	default:
		return toNumberOf[float64](from, to)
	}
}

func toNumberOf[T number](from, to arrow.DataType) *conversion {
	switch from.ID() {
	case arrow.INT32:
		return betweenNumbers[int32, T](to, judgeInteger[int32, T](to))
	case arrow.INT64:
		return betweenNumbers[int64, T](to, judgeInteger[int64, T](to))
	case arrow.FLOAT32:
		return betweenNumbers[float32, T](to, judgeFloat[float32, T](to))
	case arrow.FLOAT64:
		return betweenNumbers[float64, T](to, judgeFloat[float64, T](to))
	case arrow.BOOL:
		return fixed(to, func(a arrow.Array) func(int) (T, verdict) {
			flags := a.(*array.Boolean)
			return func(row int) (T, verdict) {
				if flags.Value(row) {
					return 1, fits
				}
				return 0, fits
			}
		})
	case arrow.STRING:
		return textToNumber[T](to)
	case arrow.DECIMAL128:
		return decimalToNumber[T](from.(*arrow.Decimal128Type).Scale, to)
	default:
		return nil
	}
}

// betweenNumbers returns a conversion of numbers. If judge is nil, all values fit.
func betweenNumbers[F, T number](to arrow.DataType, judge func(F) verdict) *conversion {
	convert := func(c *casting) []*memory.Buffer {
		values := c.buffer(c.Count * to.(arrow.FixedWidthDataType).Bytes())
		in, out := arrow.GetValues[F](c.from.Data(), 1), arrow.GetData[T](values.Bytes())
		for from := 0; from < c.Count; from += blockRows {
			end := min(from+blockRows, c.Count)
			if judge == nil {
				convertAll(in[from:end], out[from:end])
			} else if convertBlock(in[from:end], out[from:end]) {
				c.check(from, end, func(row int) verdict { return judge(in[row]) })
			}
		}
		return []*memory.Buffer{values}
	}
	return &conversion{convert: convert, size: trySize(to)}
}

// convertAll converts numbers that all fit.
func convertAll[F, T number](in []F, out []T) {
	out = out[:len(in)]
	for i, v := range in {
		out[i] = T(v)
	}
}

// convertBlock converts numbers. It returns true if one of them may not fit.
func convertBlock[F, T number](in []F, out []T) bool {
	out = out[:len(in)]
	suspect := false
	for i, v := range in {
		converted := T(v)
		out[i] = converted
		// Beyond the range of an integer, the result of a conversion depends on the processor.
		suspect = suspect || F(converted) != v || v >= math.MaxInt32
	}
	return suspect
}

// judgeInteger returns the judge of casts of integers: nil if all values fit. An integer becomes the
// nearest float.
func judgeInteger[F int32 | int64, T number](to arrow.DataType) func(F) verdict {
	var from F
	if _, long := any(from).(int64); !long || to.ID() != arrow.INT32 {
		return nil
	}
	return func(v F) verdict {
		if F(T(v)) != v {
			return unfit
		}
		return fits
	}
}

// judgeFloat returns the judge of casts of floats: nil if all values fit. As an integer, a fraction
// is disputed, since DuckDB rounds and Spark truncates.
func judgeFloat[F float32 | float64, T number](to arrow.DataType) func(F) verdict {
	limit := 0.0
	var from F
	_, double := any(from).(float64)
	switch to.ID() {
	case arrow.INT32:
		limit = 1 << 31
	case arrow.INT64:
		limit = 1 << 63
	case arrow.FLOAT32:
		if double {
			return func(v F) verdict {
				if math.IsInf(float64(T(v)), 0) && !math.IsInf(float64(v), 0) {
					return disputed // infinity in Spark
				}
				return fits
			}
		}
		return nil
	default:
		return nil
	}
	return func(v F) verdict {
		switch whole := math.Trunc(float64(v)); {
		case whole == limit && to.ID() == arrow.INT64:
			return disputed // Spark compares with the nearest double of the largest long, which is 2⁶³
		case math.IsNaN(whole) || whole < -limit || whole >= limit:
			return unfit
		case whole != float64(v):
			return disputed
		default:
			return fits
		}
	}
}

// decimalToNumber returns the conversion of decimals: to the nearest float, or to an integer without
// a fraction.
func decimalToNumber[T number](scale int32, to arrow.DataType) *conversion {
	return fixed(to, func(a arrow.Array) func(int) (T, verdict) {
		values := arrow.GetValues[decimal128.Num](a.Data(), 1)
		if to.ID() == arrow.FLOAT32 || to.ID() == arrow.FLOAT64 {
			return func(row int) (T, verdict) { return T(decimalFloat(values[row], scale, to)), fits }
		}
		unit := decimal128.GetScaleMultiplier(int(scale))
		return func(row int) (T, verdict) {
			whole, rest := values[row].Div(unit)
			switch v := T(int64(whole.LowBits())); {
			case rest != decimal128.Num{}:
				return 0, disputed // DuckDB rounds, and Spark truncates
			case decimal128.FromI64(int64(v)) != whole:
				return 0, unfit
			default:
				return v, fits
			}
		}
	})
}
