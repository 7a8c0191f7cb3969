package function

import "math"

// Go's sine and cosine lose up to all bits near the multiples of π/2, where hours of the day and other
// phases of a cycle are. The functions below are within one unit in the last place there, too.

// π/2 as the sum of three floats.
const (
	quarterHigh = 1.57079632679489655800e+00
	quarterMid  = 6.12323399573676603587e-17
	quarterLow  = -1.49738490485916980000e-33
)

func sine(x float64) float64 {
	if math.Abs(x) < math.Pi/4 {
		return sineOf(pair{x, 0})
	}
	return quadrant(x, 0)
}

func cosine(x float64) float64 {
	if math.Abs(x) < math.Pi/4 {
		return cosineOf(pair{x, 0})
	}
	return quadrant(x, 1)
}

// quadrant returns the sine of x plus some quarters of a circle. x is at most largestAngle in absolute value.
func quadrant(x float64, quarters int) float64 {
	n := math.Round(x / quarterHigh)
	rest := pair{math.FMA(-n, quarterHigh, x), 0} // exact: x and the product are near each other
	rest = rest.plus(pair{n, 0}.times(pair{-quarterMid, -quarterLow}))
	switch (int(n) + quarters) & 3 {
	case 0:
		return sineOf(rest)
	case 1:
		return cosineOf(rest)
	case 2:
		return -sineOf(rest)
	default:
		return -cosineOf(rest)
	}
}

// sineOf returns the sine of an angle of at most about π/4, by the polynomial of FreeBSD's msun.
func sineOf(p pair) float64 {
	x, y := p.high, p.low
	z := x * x
	r := 8.33333333332248946124e-03 + z*(-1.98412698298579493134e-04+z*(2.75573137070700676789e-06+z*(-2.50507602534068634195e-08+z*1.58969099521155010221e-10)))
	v := z * x
	return x - ((z*(0.5*y-v*r) - y) - v*-1.66666666666666324348e-01)
}

// cosineOf returns the cosine of an angle of at most about π/4, by the polynomial of FreeBSD's msun.
func cosineOf(p pair) float64 {
	x, y := p.high, p.low
	z := x * x
	r := z * (4.16666666666666019037e-02 + z*(-1.38888888888741095749e-03+z*(2.48015872894767294178e-05+z*(-2.75573143513906633035e-07+z*(2.08757232129817482790e-09+z*-1.13596475577881948265e-11)))))
	half := 0.5 * z
	w := 1 - half
	return w + (((1 - w) - half) + (z*r - x*y))
}
