package bucket

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/twmb/murmur3"
)

const maxInt32 = math.MaxInt32

// The constants of murmur3_x86_32.
const (
	mulFirst  uint32 = 0xcc9e2d51
	mulSecond uint32 = 0x1b873593
	mulHash   uint32 = 5
	addHash   uint32 = 0xe6546b64
	finalOne  uint32 = 0x85ebca6b
	finalTwo  uint32 = 0xc2b2ae35
)

// HashInt64 hashes an int, long, date (days), time or timestamp (both in
// microseconds): its 64-bit value as eight little-endian bytes.
func HashInt64(v int64) int32 {
	low, high := uint32(v)*mulFirst, uint32(uint64(v)>>32)*mulFirst
	h := bits.RotateLeft32(bits.RotateLeft32(low, 15)*mulSecond, 13)*mulHash + addHash
	h = bits.RotateLeft32(h^bits.RotateLeft32(high, 15)*mulSecond, 13)*mulHash + addHash
	h ^= 8 // the length in bytes
	h = (h ^ h>>16) * finalOne
	h = (h ^ h>>13) * finalTwo
	return int32(h ^ h>>16)
}

// HashBytes hashes a string (its UTF-8 bytes), binary, fixed or uuid value.
func HashBytes(v []byte) int32 { return int32(murmur3.Sum32(v)) }

// hashDecimal hashes a decimal by its unscaled value: the fewest big-endian
// bytes that hold it in two's complement.
func hashDecimal(v decimal128.Num) int32 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(v.HighBits()))
	binary.BigEndian.PutUint64(b[8:], v.LowBits())
	fill := byte(v.HighBits() >> 63) // 0x00 or 0xff
	start := 0
	for start < len(b)-1 && b[start] == fill && (b[start+1]^fill)&0x80 == 0 {
		start++
	}
	return int32(murmur3.Sum32(b[start:]))
}

// Modulus divides hashes by a fixed number of buckets with two
// multiplications in place of a division (Lemire, Kaser, Kurz: Faster
// remainder by direct computation). It is exact for every 31-bit hash.
type Modulus struct{ n, inverse uint64 }

// NewModulus returns the modulus of a number of buckets, which must be positive.
func NewModulus(n int) Modulus {
	return Modulus{n: uint64(n), inverse: math.MaxUint64/uint64(n) + 1}
}

// Of returns the bucket of a hash.
func (m Modulus) Of(hash int32) int32 {
	high, _ := bits.Mul64(m.inverse*uint64(hash&maxInt32), m.n)
	return int32(high)
}
