package cell

import (
	"encoding/binary"
	"math/big"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

// murmur3 is Murmur3 (x86, 32 bits) with seed 0. It is written from the specification,
// independently of the product's hash.
func murmur3(key []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	scramble := func(k uint32) uint32 { return bits.RotateLeft32(k*c1, 15) * c2 }
	var h uint32
	rest := key
	for ; len(rest) >= 4; rest = rest[4:] {
		h ^= scramble(binary.LittleEndian.Uint32(rest))
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	var tail uint32
	for i, b := range rest {
		tail |= uint32(b) << (8 * i)
	}
	h ^= scramble(tail)
	h ^= uint32(len(key))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// Hash returns the hash of a value according to Iceberg's specification, appendix
// B: integers, days and microseconds as longs, decimals by their unscaled value, other
// values by their bytes.
func Hash(dt arrow.DataType, v any) uint32 {
	switch v := v.(type) {
	case int64:
		if t, ok := dt.(*arrow.TimestampType); ok && t.Unit == arrow.Nanosecond {
			v = FloorDiv(v, 1000)
		}
		return murmur3(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	case Decimal:
		return murmur3(twosComplement(v.Unscaled(dt.(*arrow.Decimal128Type).Scale)))
	default:
		return murmur3([]byte(v.(string)))
	}
}

// twosComplement returns the minimal big-endian two's complement of a number.
func twosComplement(n *big.Int) []byte {
	size := 1
	for limit := big.NewInt(128); n.Cmp(limit) >= 0 || n.Cmp(new(big.Int).Neg(limit)) < 0; limit.Lsh(limit, 8) {
		size++
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return n.FillBytes(make([]byte, size))
}

// Bucket returns the bucket of a value, where count is the number of buckets. It returns nil for a
// null.
func Bucket(dt arrow.DataType, v any, count int) any {
	if v == nil {
		return nil
	}
	return int64(Hash(dt, v)&0x7fffffff) % int64(count)
}
