package function

import "math"

// Go's math.Pow loses up to six bits for large exponents, and math.Log is wrong for subnormal numbers on amd64. The
// functions below are within one unit in the last place of C's.

// pair is the unevaluated sum of two floats, of which the first is the nearest float to the sum.
type pair struct{ high, low float64 }

func sum(a, b float64) pair {
	high := a + b
	rest := high - a
	return pair{high, (a - (high - rest)) + (b - rest)}
}

func (p pair) plus(q pair) pair {
	s := sum(p.high, q.high)
	return sum(s.high, s.low+p.low+q.low)
}

func (p pair) times(q pair) pair {
	high := p.high * q.high
	return sum(high, math.FMA(p.high, q.high, -high)+p.high*q.low+p.low*q.high)
}

func (p pair) dividedBy(q pair) pair {
	high := p.high / q.high
	rest := math.FMA(-high, q.high, p.high) - high*q.low + p.low
	return sum(high, rest/q.high)
}

// exactExponent is the largest whole exponent for which power multiplies.
const exactExponent = 64

// power refuses arguments for which C returns 1, as DuckDB does, and Java NaN, as Spark does.
func power(x, y float64) (float64, *refusal) {
	if (x == 1 || x == -1) && (math.IsNaN(y) || math.IsInf(y, 0)) {
		return 0, &refusal{"differs between engines", "replace exponents that are NaN or infinite"}
	}
	whole := y == math.Trunc(y)
	switch {
	case x == 0 || y == 0 || x-x != 0 || y-y != 0 || x < 0 && !whole: // NaN and infinity, too
		return math.Pow(x, y), nil
	case y == 0.5:
		return math.Sqrt(x), nil
	case whole && math.Abs(y) <= exactExponent:
		if out := multiplied(x, int(y)); out-out == 0 && math.Abs(out) > 1e-290 {
			return out, nil
		}
	}
	log := logarithmOf(math.Abs(x))
	out := math.Exp(log.high * y)           // infinite or 0,
	if math.Abs(log.high*y) < maxExponent { // or not
		out = exponential(log.times(pair{y, 0}))
	}
	if x < 0 && math.Mod(y, 2) != 0 {
		out = -out
	}
	return out, nil
}

// multiplied returns x to the power of n. The result is exact if it is a float, unless an intermediate value is too large or
// too small: then the result is not finite, or near 0.
func multiplied(x float64, n int) float64 {
	out, square := pair{1, 0}, pair{x, 0}
	for k := max(n, -n); k > 0; k >>= 1 {
		if k&1 == 1 {
			out = out.times(square)
		}
		if k > 1 {
			square = square.times(square)
		}
	}
	if n < 0 {
		out = pair{1, 0}.dividedBy(out)
	}
	return out.high
}

// ln 2 as a pair whose first part times an exponent is exact.
const (
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// logarithmOf returns the natural logarithm of a positive number with about 64 bits: ln m = 2 artanh s with s = (m-1)/(m+1),
// for x = m * 2^exponent.
func logarithmOf(x float64) pair {
	m, exponent := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, exponent = m*2, exponent-1
	}
	s := pair{m - 1, 0}.dividedBy(sum(m, 1))
	square := s.times(s)
	// The series 1/5 + s²/7 + s⁴/9 + … .
	series := 0.0
	for k := 29.0; k >= 5; k -= 2 {
		series = series*square.high + 1/k
	}
	third := pair{1.0 / 3, 1.850371707708594e-17}
	tail := square.times(third.plus(square.times(pair{series, 0})))
	of := s.plus(s.times(tail))
	of = pair{2 * of.high, 2 * of.low}
	return pair{float64(exponent) * ln2High, 0}.plus(of).plus(pair{float64(exponent) * ln2Low, 0})
}

// maxExponent is more than the logarithms of all positive floats, in absolute value.
const maxExponent = 750

// exponential returns e to the power of a pair, which is at most maxExponent in absolute value.
func exponential(p pair) float64 {
	scale := 0
	switch {
	case p.high > 700:
		scale = 512
	case p.high < -700:
		scale = -512
	}
	p = p.plus(pair{-float64(scale) * ln2High, 0}).plus(pair{-float64(scale) * ln2Low, 0})
	out := math.Exp(p.high)
	return math.Ldexp(out+out*p.low, scale)
}
