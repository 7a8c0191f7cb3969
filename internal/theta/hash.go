package theta

import (
	"math/bits"

	"github.com/twmb/murmur3"
)

// seed is the default seed of DataSketches. seedHash identifies it in serialized sketches.
const (
	seed     = 9001
	seedHash = 0x93cc
)

// hashBytes returns the hash of a value: the upper 63 bits of the first half of MurmurHash3.
func hashBytes(value []byte) uint64 {
	h, _ := murmur3.SeedSum128(seed, seed, value)
	return h >> 1
}

// Constants of MurmurHash3 for 128 bits.
const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// hash64 returns the hash of the eight bytes of a number, and hash32 that of four bytes. They equal hashBytes of the
// little-endian bytes, and can be inlined.
func hash64(value uint64) uint64 { return hashTail(value, 8) } //nolint:mnd // bytes

func hash32(value uint32) uint64 { return hashTail(uint64(value), 4) } //nolint:mnd // bytes

func hashTail(value, size uint64) uint64 {
	h1 := uint64(seed) ^ bits.RotateLeft64(value*murmurC1, 31)*murmurC2 ^ size
	h2 := uint64(seed) ^ size
	h1 += h2
	h2 += h1
	return (mix(h1) + mix(h2)) >> 1
}

// mix is the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
