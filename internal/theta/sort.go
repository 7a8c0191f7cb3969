package theta

import (
	"math"
	"math/bits"
	"slices"
)

// bucketBits is such that few of the hashes of a full sketch have the same highest bits.
const bucketBits = 12

// sortHashes sorts the hashes. It divides them by their highest bits first, since hashes are spread evenly, whatever the
// values are.
func (s *Sketch) sortHashes() {
	shift := max(bits.Len64((s.below-1)&math.MaxInt64)-bucketBits, 0)
	var next, ends [1 << bucketBits]uint16
	for _, h := range s.hashes {
		ends[h>>shift]++
	}
	at := uint16(0)
	for b, n := range ends {
		next[b] = at
		at += n
		ends[b] = at
	}
	// Each hash changes places with the one at the next place of its bucket, until one of this bucket is found.
	for b, end := range ends {
		for at := next[b]; at < end; at = next[b] {
			h := s.hashes[at]
			for of := h >> shift; of != uint64(b); of = h >> shift {
				h, s.hashes[next[of]] = s.hashes[next[of]], h
				next[of]++
			}
			s.hashes[at] = h
			next[b]++
		}
	}
	from := uint16(0)
	for _, end := range ends {
		if end-from > 1 {
			slices.Sort(s.hashes[from:end])
		}
		from = end
	}
}
