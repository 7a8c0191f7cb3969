package stats

import (
	"math"
	"slices"
)

const (
	digitBits = 8
	digits    = 64 / digitBits
	// minDigits is the number of values from which on sorting by digits is faster than comparing.
	minDigits = 512
	signBit   = 1 << 63
)

// sortIntegers sorts values. Like sortFloats, it takes 16 bytes for each value until it returns.
func sortIntegers(values []int64) {
	if len(values) < minDigits {
		slices.Sort(values)
		return
	}
	keys := make([]uint64, len(values))
	for i, v := range values {
		keys[i] = uint64(v) ^ signBit //nolint:gosec // its bits
	}
	for i, k := range sortKeys(keys) {
		values[i] = int64(k ^ signBit) //nolint:gosec // its bits
	}
}

// sortFloats sorts values that are not NaN, and replaces -0 with 0, so that equal values are the same.
func sortFloats(values []float64) {
	for i := range values {
		values[i] += 0
	}
	if len(values) < minDigits {
		slices.Sort(values)
		return
	}
	keys := make([]uint64, len(values))
	for i, v := range values {
		b := math.Float64bits(v)
		keys[i] = b ^ (uint64(int64(b)>>63) | signBit) //nolint:gosec // the bits of negative values are inverted
	}
	for i, k := range sortKeys(keys) {
		values[i] = math.Float64frombits(k ^ (^uint64(int64(k)>>63) | signBit)) //nolint:gosec // as above
	}
}

// sortKeys returns the keys in ascending order: in the same array or in one of the same size. It sorts them by their digits, the
// lowest first, and leaves out digits that are the same in all keys.
func sortKeys(keys []uint64) []uint64 {
	var counts [digits][1 << digitBits]int
	for _, k := range keys {
		for d := range counts {
			counts[d][k>>(digitBits*d)&(1<<digitBits-1)]++
		}
	}
	other := make([]uint64, len(keys))
	for d := range counts {
		next := &counts[d]
		if next[keys[0]>>(digitBits*d)&(1<<digitBits-1)] == len(keys) {
			continue
		}
		at := 0
		for i, n := range next {
			next[i] = at
			at += n
		}
		for _, k := range keys {
			digit := k >> (digitBits * d) & (1<<digitBits - 1)
			other[next[digit]] = k
			next[digit]++
		}
		keys, other = other, keys
	}
	return keys
}
