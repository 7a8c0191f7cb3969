package theta

import (
	"math"
	"slices"
)

// Nominal is the number of hashes that a sketch keeps.
const Nominal = 4096

// Error is the relative standard error of estimates: 1/sqrt(Nominal-1).
const Error = 0.01563

// MaxMemory is the maximum memory of a sketch in bytes.
const MaxMemory = (bufferSize + recentSize) * word

// MaxBytes is the maximum size of a serialized sketch in bytes.
const MaxBytes = (Nominal + preambleEstimate) * word

// bufferSize is the number of hashes that are collected before they are sorted.
const bufferSize = 4 * Nominal

// recentSize is the number of hashes of which a sketch knows that it has added them. It is a power of two.
const recentSize = 1024

// Sketch estimates the number of distinct values. The zero value is an empty sketch. It is not safe
// for concurrent use.
type Sketch struct {
	// below is theta: hashes at or above it are not kept. 0 stands for all hashes.
	below  uint64
	hashes []uint64
	// sorted is the number of hashes at the beginning of hashes that are sorted and distinct.
	sorted int
	// recent has the last hash that was added with each value of the lowest bits, so that the values of columns with few different
	// values are not added again. Hash 0 stands for none.
	recent []uint64
}

// AddUint64 adds a value whose bytes are the eight little-endian bytes of a number.
func (s *Sketch) AddUint64(value uint64) { s.add(hash64(value)) }

// AddUint32 adds a value whose bytes are the four little-endian bytes of a number.
func (s *Sketch) AddUint32(value uint32) { s.add(hash32(value)) }

// AddBytes adds a value. An empty value is ignored.
func (s *Sketch) AddBytes(value []byte) {
	if len(value) > 0 {
		s.add(hashBytes(value))
	}
}

func (s *Sketch) add(hash uint64) {
	// With below 0, the subtraction makes each hash small enough. Hash 0 stands for no value.
	if hash-1 < s.below-1 {
		s.keep(hash)
	}
}

func (s *Sketch) keep(hash uint64) {
	if s.recent == nil {
		s.recent = make([]uint64, recentSize)
	}
	if last := &s.recent[hash%recentSize]; *last != hash {
		*last = hash
		s.append(hash)
	}
}

func (s *Sketch) append(hash uint64) {
	if len(s.hashes) == bufferSize {
		s.sort()
	}
	if s.below == 0 || hash < s.below {
		s.hashes = append(s.hashes, hash)
	}
}

// sort sorts the hashes, removes repeated ones, and removes all but the smallest Nominal ones.
func (s *Sketch) sort() {
	if s.sorted == len(s.hashes) {
		return
	}
	s.sortHashes()
	s.hashes = slices.Compact(s.hashes)
	if len(s.hashes) > Nominal {
		s.below = s.hashes[Nominal]
		s.hashes = s.hashes[:Nominal]
	}
	s.sorted = len(s.hashes)
}

// Merge adds the values of another sketch, which stays as it is except for the order of its hashes.
func (s *Sketch) Merge(other *Sketch) {
	other.sort()
	if other.below != 0 && (s.below == 0 || other.below < s.below) {
		s.below = other.below
		s.hashes = slices.DeleteFunc(s.hashes, func(h uint64) bool { return h >= s.below })
		s.sorted = 0
	}
	for _, h := range other.hashes {
		s.add(h)
	}
}

// Estimate returns the estimated number of distinct values. exact reports whether it is their number.
func (s *Sketch) Estimate() (n float64, exact bool) {
	s.sort()
	if s.below == 0 {
		return float64(len(s.hashes)), true
	}
	return float64(len(s.hashes)) / (float64(s.below) / math.MaxInt64), false
}
