package stats

import "math"

// moments has the mean and the sum of squared deviations of numbers.
type moments struct {
	n     int64
	shift float64 // the first number: sums of differences from it lose less precision
	sum   float64 // of x - shift
	sum2  float64 // of (x - shift)²
}

func (m *moments) add(x float64) {
	if m.n == 0 {
		m.shift = x
	}
	d := x - m.shift
	m.n++
	m.sum += d
	m.sum2 += d * d
}

// mean returns the mean; NaN without numbers.
func (m *moments) mean() float64 { return m.shift + m.sum/float64(m.n) }

// squares returns the sum of the squared deviations from the mean.
func (m *moments) squares() float64 { return max(0, m.sum2-m.sum*m.sum/float64(m.n)) }

// deviation returns the standard deviation of the numbers as a whole population; NaN without numbers.
func (m *moments) deviation() float64 { return math.Sqrt(m.squares() / float64(m.n)) }

// merge adds the numbers of other, by the formula of Chan, Golub and LeVeque, 1979.
func (m *moments) merge(other moments) {
	switch {
	case other.n == 0:
		return
	case m.n == 0:
		*m = other
		return
	}
	// Both are expressed as sums of differences from m's shift.
	delta := other.shift - m.shift
	n := float64(other.n)
	m.sum2 += other.sum2 + 2*delta*other.sum + n*delta*delta
	m.sum += other.sum + n*delta
	m.n += other.n
}
