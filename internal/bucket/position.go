package bucket

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	hashBits  = 31            // of a hash without its sign bit
	positions = 1 << hashBits // in hash space

	// The constants of splitmix64, which mixes the hashes of several columns.
	stepGolden uint64 = 0x9e3779b97f4a7c15
	mixFirst   uint64 = 0xbf58476d1ce4e5b9
	mixSecond  uint64 = 0x94d049bb133111eb
)

// Positions appends to dst the position of every row in hash space, [0, 1), and
// returns the extended slice. There is at least one column, and all have the
// same length.
//
// The position of a single column is its bucket hash without the sign bit, with
// the 31 bits reversed and read as a binary fraction: [0, 1/16) holds exactly
// the rows of bucket 0 of 16, and [1/2, 1) those of all odd buckets. The hashes
// of several columns are mixed, so that the position is unrelated to the bucket
// of any one of them. A null counts as the hash 0. Positions fails with Invalid
// if a type cannot be bucketed.
func Positions(dst []float64, columns ...arrow.Array) ([]float64, error) {
	hashes, err := hashesOrZero(nil, columns[0])
	if err != nil {
		return dst, err
	}
	if len(columns) > 1 {
		mixed := make([]uint64, len(hashes))
		for _, column := range columns {
			if hashes, err = hashesOrZero(hashes[:0], column); err != nil {
				return dst, err
			}
			for i, h := range hashes {
				mixed[i] = Mix(mixed[i] + uint64(uint32(h)))
			}
		}
		for i, m := range mixed {
			hashes[i] = int32(m >> hashBits)
		}
	}
	for _, h := range hashes {
		dst = append(dst, position(h))
	}
	return dst, nil
}

// hashesOrZero is like Hashes, with 0 for nulls.
func hashesOrZero(dst []int32, column arrow.Array) ([]int32, error) {
	hashes, err := Hashes(dst, column)
	if err != nil || column.NullN() == 0 {
		return hashes, err
	}
	for i := range hashes {
		if column.IsNull(i) {
			hashes[i] = 0
		}
	}
	return hashes, nil
}

// position returns the position of a hash in hash space.
func position(hash int32) float64 {
	return float64(bits.Reverse32(uint32(hash&maxInt32))>>1) / positions
}

// Mix spreads v over all 64 bits: one step of splitmix64. It is a bijection, and
// its result is the same on every machine.
func Mix(v uint64) uint64 {
	v += stepGolden
	v = (v ^ v>>30) * mixFirst
	v = (v ^ v>>27) * mixSecond
	return v ^ v>>31
}

// InRange reports whether a position lies in [from, to). The range wraps around
// if from is above to: [b, a) is the complement of [a, b).
func InRange(position, from, to float64) bool {
	if from > to {
		return position >= from || position < to
	}
	return position >= from && position < to
}

// MayHold reports whether bucket b of n of a single column can hold a row whose position in the
// column's hash space lies in [from, to), in the sense of InRange. n must be positive, and b less
// than n or Null. The result is exact if n is a power of two: each bucket is then one interval of
// hash space. Otherwise, only the largest power of two that divides n is used. An odd factor of n
// excludes nothing. If MayHold returns false, the bucket has no such row.
func MayHold(b int32, n int, from, to float64) bool {
	if b == Null {
		return InRange(0, from, to)
	}
	digits := bits.TrailingZeros(uint(n))
	first := position(b & (1<<digits - 1))
	after := first + 1/float64(uint(1)<<digits)
	if from > to {
		return after > from || first < to
	}
	return from < to && after > from && first < to
}
