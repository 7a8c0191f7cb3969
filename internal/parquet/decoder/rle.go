package decoder

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// rleDecoder decodes Parquet's RLE/bit-packing hybrid of small numbers (format
// specification, "Run Length Encoding / Bit-Packing Hybrid").
type rleDecoder struct {
	rest  []byte
	width int // bits of a number, at most 32

	repeat int    // how many numbers are left in the open RLE run; 0 if no RLE run is open
	value  uint32 // the number that the RLE run repeats
	packed int    // how many numbers are left in the open bit-packed run; 0 if none is open
	run    int    // how many numbers the bit-packed run has in total
	bits   []byte // the whole bit-packed run, and up to eight bytes behind it
	at     int    // bit offset of the next number in bits
}

// maxRun bounds how many numbers a run has. No page has as many.
const maxRun = math.MaxInt32

var errRuns = errors.New("the runs of a page cannot be read")

// next opens the next run.
func (h *rleDecoder) next() error {
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
		if uint64(h.value)>>h.width != 0 {
			return errRuns
		}
		h.rest, h.repeat = h.rest[size:], int(head>>1)
		return nil
	}
	groups := int(head >> 1)
	size := min(groups*h.width, len(h.rest)) // the last group may be truncated
	h.bits, h.rest, h.at = beyond(h.rest, size), h.rest[size:], 0
	h.packed = groups * 8
	if h.width > 0 {
		h.packed = min(h.packed, size*8/h.width)
	}
	if h.run = h.packed; h.packed == 0 {
		return errRuns
	}
	return nil
}

// beyond returns the first size bytes and up to eight bytes behind them, so that numbers at the end
// of the first size bytes can be loaded with whole words.
func beyond(from []byte, size int) []byte { return from[:min(size+8, len(from))] }

// exhausted reports whether all runs have been read, except for padding in the last one. If other
// numbers are left, a damaged page was decoded with the wrong encoding. Writers pad a run with
// arbitrary bits to a multiple of eight numbers, and DuckDB to a multiple of 256.
func (h *rleDecoder) exhausted() bool {
	if len(h.rest) > 0 || h.repeat > 0 {
		return false
	}
	return h.packed < packedGroup || h.packed < duckDBRun && h.run%duckDBRun == 0
}

// number returns the number at a bit offset of the open bit-packed run.
func (h *rleDecoder) number(at int) uint32 {
	return uint32(h.word(at)) & uint32(1<<h.width-1)
}

// word returns at least 57 bits of the open bit-packed run, starting at a bit offset. Bits past the
// end of the run are arbitrary.
func (h *rleDecoder) word(at int) uint64 {
	var word uint64
	if from := at >> 3; from+8 <= len(h.bits) {
		word = binary.LittleEndian.Uint64(h.bits[from:])
	} else {
		for i, b := range h.bits[from:] {
			word |= uint64(b) << (8 * i)
		}
	}
	return word >> (at & 7)
}

// shortRun is the maximum number of bits that are copied without the library, which allocates a
// reader and a writer for each run. The levels of lists have short runs.
const shortRun = 56

// copyPacked copies n bits of the open bit-packed run to out, starting at bit at of out, and
// returns how many of the bits are set. The bits in out must be clear before.
func (h *rleDecoder) copyPacked(out []byte, at, n int) int {
	if n > shortRun {
		bitutil.CopyBitmap(h.bits, h.at, n, out, at)
		return bitutil.CountSetBits(h.bits, h.at, n)
	}
	word := h.word(h.at) & (1<<n - 1)
	set := bits.OnesCount64(word)
	out[at>>3] |= byte(word << (at & 7))
	word >>= 8 - at&7
	for to := at>>3 + 1; word != 0; to++ {
		out[to] |= byte(word)
		word >>= 8
	}
	return set
}

// defined reads n definition levels of an optional column. It sets the validity bits, starting at
// bit at, of values that are not null, and returns the number of these values. The bits must be
// clear before.
func (h *rleDecoder) defined(validity []byte, at, n int) (int, error) {
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
			found += h.copyPacked(validity, at, k)
			h.packed, h.at, at, n = h.packed-k, h.at+k, at+k, n-k
		default:
			if err := h.next(); err != nil {
				return 0, err
			}
		}
	}
	return found, nil
}

// skip skips n numbers.
func (h *rleDecoder) skip(n int) error {
	_, err := h.skipDefined(n)
	return err
}

// skipPresent skips n rows of a column, and returns how many of them are not null. If the column is
// optional, h decodes its definition levels.
func (h *rleDecoder) skipPresent(optional bool, n int) (int, error) {
	if !optional {
		return n, nil
	}
	return h.skipDefined(n)
}

// skipDefined skips n numbers. If the numbers are definition levels of an optional column, it
// returns how many of the values are not null.
func (h *rleDecoder) skipDefined(n int) (int, error) {
	found := 0
	for n > 0 {
		switch {
		case h.repeat > 0:
			k := min(n, h.repeat)
			if h.value == 1 {
				found += k
			}
			h.repeat, n = h.repeat-k, n-k
		case h.packed > 0:
			k := min(n, h.packed)
			if h.width == 1 {
				found += bitutil.CountSetBits(h.bits, h.at, k)
			}
			h.packed, h.at, n = h.packed-k, h.at+k*h.width, n-k
		default:
			if err := h.next(); err != nil {
				return 0, err
			}
		}
	}
	return found, nil
}

// repeated opens the next run if none is open, and returns how many numbers are left in
// it if it is an RLE run of the given value, otherwise 0.
func (h *rleDecoder) repeated(value uint32) (int, error) {
	if h.repeat == 0 && h.packed == 0 {
		if err := h.next(); err != nil {
			return 0, err
		}
	}
	if h.value != value {
		return 0, nil
	}
	return h.repeat, nil
}

// bytes fills out with the next numbers, which must have at most eight bits.
func (h *rleDecoder) bytes(out []byte) error {
	for len(out) > 0 {
		switch {
		case h.repeat > 0:
			k := min(len(out), h.repeat)
			for i := range out[:k] {
				out[i] = byte(h.value)
			}
			h.repeat, out = h.repeat-k, out[k:]
		case h.packed > 0:
			k := min(len(out), h.packed)
			for i := range out[:k] {
				out[i] = byte(h.number(h.at))
				h.at += h.width
			}
			h.packed, out = h.packed-k, out[k:]
		default:
			if err := h.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// gather reads n indices and writes the dictionary values at these indices to out.
func gather[T uint32 | uint64](h *rleDecoder, out, dictionary []T, n int) error {
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

// gatherPacked is gather within a bit-packed run. It loads eight bytes at a time, except near the
// end of the run.
func gatherPacked[T uint32 | uint64](h *rleDecoder, out, dictionary []T) error {
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
