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

// mean returns the mean. It is NaN or infinite without numbers, or if their sum is beyond float64.
func (m *moments) mean() float64 { return m.shift + m.sum/float64(m.n) }

// squares returns the sum of the squared deviations from the mean. It is NaN without numbers, or if a sum is beyond float64.
func (m *moments) squares() float64 {
	sum2, square := m.sum2, m.sum*m.sum
	if math.IsInf(sum2, 0) || math.IsInf(square, 0) {
		return math.NaN()
	}
	return max(0, sum2-square/float64(m.n))
}

// deviation returns the standard deviation of the numbers as a whole population. It is NaN where squares is NaN.
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
