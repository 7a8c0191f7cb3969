package stats

import (
	"math"

	"github.com/penstock/penstock/internal/theta"
)

// Sampling selects rows of a file: each row with the same probability, 2 to the power of -Level, independently of its values.
// A row that one level selects is also selected by all lower levels.
type Sampling struct {
	Seed  uint64 // of the file. Files with different seeds have independent samples
	Level int    // from 0, which selects all rows, to maxLevel
}

const maxLevel = 63

// LevelFor returns the smallest level that is expected to select at most the given number of rows.
func LevelFor(rows, atMost int64) (level int) {
	for rows>>level > atMost {
		level++
	}
	return level
}

// Rate returns the probability of each row.
func (s Sampling) Rate() float64 { return math.Ldexp(1, -s.Level) }

// Append appends the positions in a batch of the rows that are selected, given the number in its file of each
// row of the batch.
func (s Sampling) Append(to []int32, numbers []int64) []int32 {
	for i, n := range numbers {
		if s.Selects(n) {
			to = append(to, int32(i))
		}
	}
	return to
}

// Selects reports whether the row with a number is selected.
func (s Sampling) Selects(number int64) bool {
	return scramble(s.Seed^scramble(uint64(number)+1))>>(64-s.Level) == 0 //nolint:gosec,mnd // any bits will do; a shift by 64 gives 0
}

// scramble is the finalizer of SplitMix64, which changes every bit of the result with probability 1/2 if one bit
// changes. Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
func scramble(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// errorProbability is the probability with which a quantile may be farther from the true one than QuantileError.
const errorProbability = 0.01

// QuantileError returns the error of the quantiles of a sample: with a probability of 99 %, all
// quantiles q of the sample lie between the quantiles q-e and q+e of all values. It is 0 if the sample has all values.
// Source: Dvoretzky, Kiefer, Wolfowitz, with the constant of Massart, 1990.
func QuantileError(sampled, all int64) float64 {
	if sampled >= all || sampled == 0 {
		return 0
	}
	return min(1, math.Sqrt(math.Log(2/errorProbability)/(2*float64(sampled))))
}

// DistinctError is the relative standard error of the numbers of distinct values that are not exact.
const DistinctError = theta.Error
