package bucket

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	hashBits  = 31            // of a hash without its sign
	positions = 1 << hashBits // that hash space has

	// The steps of splitmix64, which spread what several columns' hashes say
	// over all bits.
	stepGolden uint64 = 0x9e3779b97f4a7c15
	mixFirst   uint64 = 0xbf58476d1ce4e5b9
	mixSecond  uint64 = 0x94d049bb133111eb
)

// Positions appends to dst the place of every row in hash space, [0, 1), and
// returns the extended slice. Columns are those that are hashed, of one
// length; there is at least one.
//
// Of one column it is the bucket hash without its sign, its 31 binary digits
// reversed and put behind the point: so [0, 1/16) holds exactly the rows of
// bucket 0 of 16, and [1/2, 1) those of all odd buckets. Of several columns
// it is a mix of their hashes, which says nothing of any one's bucket. A null
// counts as the hash 0. It fails with Invalid if a type cannot be bucketed.
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

// hashesOrZero is Hashes with 0 for nulls.
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

// position is where a hash lies.
func position(hash int32) float64 {
	return float64(bits.Reverse32(uint32(hash&maxInt32))>>1) / positions
}

// Mix spreads v over all 64 bits: one step of splitmix64. Equal values give
// equal results on every machine, and each result comes of one value alone.
func Mix(v uint64) uint64 {
	v += stepGolden
	v = (v ^ v>>30) * mixFirst
	v = (v ^ v>>27) * mixSecond
	return v ^ v>>31
}

// InRange says whether a position lies in [from, to), which wraps around where
// from is above to: [b, a) is all that [a, b) is not.
func InRange(position, from, to float64) bool {
	if from > to {
		return position >= from || position < to
	}
	return position >= from && position < to
}

// MayHold says whether bucket b of n, made of one column, can hold a row whose
// position in that column's hash space lies in [from, to), as InRange has it.
// n must be positive, b below it, or Null. The answer is exact for as much of
// n as is a power of two, of which a bucket is one interval of hash space; an
// odd n divides nothing. False is always true to the rows.
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
