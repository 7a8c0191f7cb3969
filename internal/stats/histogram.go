package stats

import (
	"cmp"
	"math"
)

// maxBins is the maximum number of bins of a Histogram.
const maxBins = 32

// Histogram counts the values of a sample in bins of equal width, and the values outside of the bins. NaN and infinite values
// are not counted.
type Histogram struct {
	// Edges has the lower limit of each bin, and then the upper limit of the last bin. Each bin has its lower limit, and the last
	// bin has its upper limit, too. The last bin of integers may be narrower.
	Edges  []Value `json:"edges"`
	Counts []int64 `json:"counts"` // of each bin
	Below  int64   `json:"below"`
	Above  int64   `json:"above"`

	integers []int64   // the edges of integers
	floats   []float64 // the edges of floats
}

// binsFor returns the number of bins for a number of values: twice its cube root, rounded up (Rice's rule), so that small samples
// have few bins.
func binsFor(values int) uint64 {
	n := uint64(1)
	for n < maxBins && n*n*n < 8*uint64(values) { //nolint:gosec,mnd // not negative; twice, cubed
		n++
	}
	return n
}

// inner returns the positions of two quantiles of sorted values that differ: 5 % and 95 %, or else 1 % and 99 %, or else the first and
// the last value.
func inner[T comparable](sorted []T) (low, high T) {
	n := len(sorted)
	for _, share := range []float64{0.05, 0.01} {
		low, high = sorted[rank(share, n)], sorted[rank(1-share, n)]
		if low != high {
			return low, high
		}
	}
	return sorted[0], sorted[n-1]
}

// rank returns the position of a quantile in a number of sorted values, by the nearest rank.
func rank(quantile float64, n int) int { return max(0, int(math.Ceil(quantile*float64(n)))-1) }

// integerHistogram returns the histogram of sorted values; nil without values. Its bins are those of like, unless that is nil. Unless
// it shows values, it is nil if each bin has one integer.
func integerHistogram(sorted []int64, value func(int64) Value, values bool, like *Histogram) *Histogram {
	if len(sorted) == 0 {
		return nil
	}
	var edges []int64
	if like != nil {
		edges = like.integers
	}
	if len(edges) == 0 {
		edges = integerEdges(sorted, values)
	}
	if len(edges) == 0 {
		return nil
	}
	h := count(edges, sorted, value)
	h.integers = edges
	return h
}

// integerEdges returns the edges of the bins of sorted values; nil if each bin has one integer, unless values are shown.
func integerEdges(sorted []int64, values bool) []int64 {
	// Differences are unsigned, so that they do not overflow.
	distance := func(from, to int64) uint64 { return uint64(to) - uint64(from) } //nolint:gosec // modulo 2^64
	from, to := sorted[0], sorted[len(sorted)-1]
	low, high := inner(sorted)
	reach := distance(low, high) / 2 //nolint:mnd // half
	if distance(from, low) > reach {
		from = low - int64(reach) //nolint:gosec // less than the distance between two integers of 64 bits, halved
	}
	if distance(high, to) > reach {
		to = high + int64(reach) //nolint:gosec // as above
	}
	width := distance(from, to)/binsFor(len(sorted)) + 1
	if width == 1 && !values {
		return nil
	}
	var edges []int64
	for i := range distance(from, to)/width + 1 {
		edges = append(edges, int64(uint64(from)+i*width)) //nolint:gosec // modulo 2^64
	}
	return append(edges, to)
}

// floatHistogram returns the histogram of the finite ones of sorted values; nil without any. Its bins are those of like, unless that
// is nil.
func floatHistogram(sorted []float64, like *Histogram) *Histogram {
	if sorted = withoutInfinities(sorted); len(sorted) == 0 {
		return nil
	}
	var edges []float64
	if like != nil {
		edges = like.floats
	}
	if len(edges) == 0 {
		edges = floatEdges(sorted)
	}
	h := count(edges, sorted, floatValue)
	h.floats = edges
	return h
}

// floatEdges returns the edges of the bins of sorted finite values.
func floatEdges(sorted []float64) []float64 {
	from, to := sorted[0], sorted[len(sorted)-1]
	low, high := inner(sorted)
	reach := high/2 - low/2 // halves do not overflow
	from, to = max(from, low-reach), min(to, high+reach)
	n := int(binsFor(len(sorted))) //nolint:gosec // at most maxBins
	if from == to {
		n = 1
	}
	edges := make([]float64, n+1)
	for i := range edges {
		// Halves do not overflow. The conversion keeps processors from fusing operations, which would round differently.
		edges[i] = 2 * (from/2 + float64(float64(i)/float64(n)*(to/2-from/2)))
	}
	edges[n] = to
	return edges
}

// count counts sorted values between the edges of bins.
func count[T cmp.Ordered](edges, sorted []T, value func(T) Value) *Histogram {
	last := len(edges) - 1
	h := &Histogram{Edges: make([]Value, len(edges)), Counts: make([]int64, last)}
	for i, e := range edges {
		h.Edges[i] = value(e)
	}
	at := 0
	for _, v := range sorted {
		switch {
		case v < edges[0]:
			h.Below++
		case v > edges[last]:
			h.Above++
		default:
			for at < last-1 && v >= edges[at+1] {
				at++
			}
			h.Counts[at]++
		}
	}
	return h
}
