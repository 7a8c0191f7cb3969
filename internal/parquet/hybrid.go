package parquet

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// hybrid reads Parquet's mix of run-length and bit-packed runs of small
// numbers (format specification, "Run Length Encoding / Bit-Packing Hybrid").
type hybrid struct {
	rest  []byte
	width int // bits of a number, at most 32

	repeat int    // numbers left of a run-length run
	value  uint32 // its number
	packed int    // numbers left of a bit-packed run
	bits   []byte // the run, whole
	at     int    // the position in bits, in bits
}

// maxRun bounds the rows of one run: pages have fewer.
const maxRun = math.MaxInt32

var errRuns = errors.New("the runs of a page cannot be read")

// next opens the next run.
func (h *hybrid) next() error {
	head, n := binary.Uvarint(h.rest)
	if n <= 0 || head>>1 == 0 || head>>1 > maxRun {
		return errRuns
	}
	h.rest = h.rest[n:]
	if head&1 == 0 {
		size := (h.width + 7) / 8
		if size > len(h.rest) {
			return errRuns
		}
		h.value = 0
		for i, b := range h.rest[:size] {
			h.value |= uint32(b) << (8 * i)
		}
		h.rest, h.repeat = h.rest[size:], int(head>>1)
		return nil
	}
	groups := int(head >> 1)
	size := min(groups*h.width, len(h.rest)) // the last group may be cut short
	h.bits, h.rest, h.at = h.rest[:size], h.rest[size:], 0
	h.packed = groups * 8
	if h.width > 0 {
		h.packed = min(h.packed, size*8/h.width)
	}
	if h.packed == 0 {
		return errRuns
	}
	return nil
}

// number returns the number at a position of the open bit-packed run.
func (h *hybrid) number(at int) uint32 {
	var word uint64
	if from := at >> 3; from+8 <= len(h.bits) {
		word = binary.LittleEndian.Uint64(h.bits[from:])
	} else {
		for i, b := range h.bits[from:] {
			word |= uint64(b) << (8 * i)
		}
	}
	return uint32(word>>(at&7)) & uint32(1<<h.width-1)
}

// present reads n definition levels of an optional column, sets the bits of
// validity, from at on, of those that are not null, and returns their number.
// Bits that are not set must be clear before.
func (h *hybrid) present(validity []byte, at, n int) (int, error) {
	found := 0
	for n > 0 {
		switch {
		case h.repeat > 0:
			k := min(n, h.repeat)
			if h.value == 1 {
				bitutil.SetBitsTo(validity, int64(at), int64(k), true)
				found += k
			}
			h.repeat, at, n = h.repeat-k, at+k, n-k
		case h.packed > 0:
			k := min(n, h.packed)
			bitutil.CopyBitmap(h.bits, h.at, k, validity, at)
			found += bitutil.CountSetBits(h.bits, h.at, k)
			h.packed, h.at, at, n = h.packed-k, h.at+k, at+k, n-k
		default:
			if err := h.next(); err != nil {
				return 0, err
			}
		}
	}
	return found, nil
}

// gather reads n indices and writes the dictionary's values at them.
func gather[T uint32 | uint64](h *hybrid, out, dictionary []T, n int) error {
	for n > 0 {
		switch {
		case h.repeat > 0:
			k := min(n, h.repeat)
			if uint64(h.value) >= uint64(len(dictionary)) {
				return errIndex
			}
			v := dictionary[h.value]
			for i := range out[:k] {
				out[i] = v
			}
			h.repeat, out, n = h.repeat-k, out[k:], n-k
		case h.packed > 0:
			k := min(n, h.packed)
			if err := gatherPacked(h, out[:k], dictionary); err != nil {
				return err
			}
			h.packed, out, n = h.packed-k, out[k:], n-k
		default:
			if err := h.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

var errIndex = errors.New("an index is beyond the dictionary")

// gatherPacked is gather within one bit-packed run. Eight bytes are loaded at
// a time where the run has them.
func gatherPacked[T uint32 | uint64](h *hybrid, out, dictionary []T) error {
	width, mask := h.width, uint64(1)<<h.width-1
	at, whole := h.at, len(h.bits)-8
	i := 0
	for ; i < len(out) && at>>3 <= whole; i++ {
		index := binary.LittleEndian.Uint64(h.bits[at>>3:]) >> (at & 7) & mask
		if index >= uint64(len(dictionary)) {
			return errIndex
		}
		out[i] = dictionary[index]
		at += width
	}
	for ; i < len(out); i++ {
		index := h.number(at)
		if uint64(index) >= uint64(len(dictionary)) {
			return errIndex
		}
		out[i] = dictionary[index]
		at += width
	}
	h.at = at
	return nil
}
