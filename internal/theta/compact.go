package theta

import (
	"encoding/binary"
	"math"

	"github.com/penstock/penstock/internal/fault"
)

// The serialized form: a preamble of one to three words of eight bytes, and the hashes in ascending
// order. See https://datasketches.apache.org/docs/Theta/ThetaSketches.html and the layout in
// PreambleUtil of DataSketches for Java.
const (
	word = 8

	serialVersion = 3
	compactFamily = 3

	flagReadOnly = 1 << 1
	flagEmpty    = 1 << 2
	flagCompact  = 1 << 3
	flagOrdered  = 1 << 4
	flagSingle   = 1 << 5

	preambleEmpty, preambleExact, preambleEstimate = 1, 2, 3
)

// Bytes returns the serialized sketch.
func (s *Sketch) Bytes() []byte {
	s.sort()
	flags, preamble := byte(flagReadOnly|flagCompact|flagOrdered), preambleExact
	switch {
	case s.below != 0:
		preamble = preambleEstimate
	case len(s.hashes) == 0:
		flags, preamble = flags|flagEmpty, preambleEmpty
	case len(s.hashes) == 1:
		flags, preamble = flags|flagSingle, preambleEmpty
	}
	out := make([]byte, 0, word*(preamble+len(s.hashes)))
	out = append(out, byte(preamble), serialVersion, compactFamily, 0, 0, flags)
	out = binary.LittleEndian.AppendUint16(out, seedHash)
	if preamble >= preambleExact {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(s.hashes))) //nolint:gosec // at most Nominal
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(1))
	}
	if preamble == preambleEstimate {
		out = binary.LittleEndian.AppendUint64(out, s.below)
	}
	for _, h := range s.hashes {
		out = binary.LittleEndian.AppendUint64(out, h)
	}
	return out
}

// Read returns the sketch that Bytes has serialized. It reads only ordered compact sketches with the default
// seed and at most Nominal hashes, and returns Corrupt for all others.
func Read(data []byte) (*Sketch, error) {
	corrupt := func(what string) (*Sketch, error) {
		return nil, fault.New(fault.Corrupt, "read a theta sketch: %s", what)
	}
	if len(data) < word || len(data)%word != 0 {
		return corrupt("its size is wrong")
	}
	if data[1] != serialVersion || data[2] != compactFamily || binary.LittleEndian.Uint16(data[6:]) != seedHash {
		return corrupt("it is not a compact sketch with the default seed")
	}
	const must = flagCompact | flagOrdered
	if data[5]&must != must {
		return corrupt("it is not ordered")
	}
	preamble, s := int(data[0]), &Sketch{}
	rest, n := data[min(word*preamble, len(data)):], 0
	switch {
	case preamble == preambleEmpty && data[5]&flagEmpty != 0:
	case preamble == preambleEmpty && data[5]&flagSingle != 0:
		n = 1
	case preamble == preambleExact && len(data) >= word*preamble:
		n = int(binary.LittleEndian.Uint32(data[word:]))
	case preamble == preambleEstimate && len(data) >= word*preamble:
		n, s.below = int(binary.LittleEndian.Uint32(data[word:])), binary.LittleEndian.Uint64(data[2*word:])
	default:
		return corrupt("its preamble is wrong")
	}
	if n > Nominal || len(rest) != word*n {
		return corrupt("the number of its hashes is wrong")
	}
	for ; len(rest) > 0; rest = rest[word:] {
		s.hashes = append(s.hashes, binary.LittleEndian.Uint64(rest))
	}
	s.sorted = n
	last := uint64(0)
	for _, h := range s.hashes {
		if h <= last {
			return corrupt("its hashes are not ascending")
		}
		last = h
	}
	if s.below > math.MaxInt64 || preamble == preambleEstimate && last >= s.below || last > math.MaxInt64 {
		return corrupt("its theta is wrong")
	}
	return s, nil
}
