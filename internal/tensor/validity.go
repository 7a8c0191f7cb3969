package tensor

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// validity says which of some values are null.
type validity struct {
	bits  []byte // a set bit is a value; nil if there are no nulls
	start int    // the bit of the first value
	count int    // the number of values
	nulls int
}

// validityOf returns the validity of an array's own bits.
func validityOf(a arrow.Array) validity {
	v := validity{count: a.Len()}
	if b := a.NullBitmapBytes(); a.NullN() > 0 && len(b) > 0 {
		v.bits, v.start, v.nulls = b, a.Data().Offset(), a.NullN()
	}
	return v
}

// slice returns the validity of n values from a position.
func (v validity) slice(from, n int) validity {
	if v.bits == nil {
		return validity{count: n}
	}
	out := validity{v.bits, v.start + from, n, n - bitutil.CountSetBits(v.bits, v.start+from, n)}
	if out.nulls == 0 {
		out.bits = nil
	}
	return out
}

// and returns the validity of values that are null in v or in w, in new memory if both have nulls.
// It takes memoryOfBits(v.count) bytes.
func (v validity) and(w validity) validity {
	if w.bits == nil {
		return v
	}
	if v.bits == nil {
		return w
	}
	out := make([]byte, memoryOfBits(v.count))
	bitutil.BitmapAnd(v.bits, w.bits, int64(v.start), int64(w.start), out, 0, int64(v.count))
	return validity{out, 0, v.count, v.count - bitutil.CountSetBits(out, 0, v.count)}
}

func memoryOfBits(count int) int { return (count + 7) / 8 }

// isNull reports whether value i is null.
func (v validity) isNull(i int) bool {
	return v.bits != nil && !bitutil.BitIsSet(v.bits, v.start+i)
}

// runs yields the ranges [from, to) of consecutive values that are not null, in order.
func (v validity) runs(yield func(from, to int) bool) {
	if v.bits == nil {
		if v.count > 0 {
			yield(0, v.count)
		}
		return
	}
	for at := v.next(0, false); at < v.count; {
		end := v.next(at, true)
		if !yield(at, end) {
			return
		}
		at = v.next(end, false)
	}
}

// next returns the first position, from at on, whose value is null or not; count if there is none.
func (v validity) next(at int, null bool) int {
	for ; at < v.count; at += 64 {
		word := bitsAt(v.bits, v.start+at)
		if null {
			word = ^word
		}
		if word != 0 {
			return min(v.count, at+bits.TrailingZeros64(word))
		}
	}
	return v.count
}

// bitsAt returns 64 bits from a position, the first one lowest. Bits after the end are 0.
func bitsAt(b []byte, at int) uint64 {
	b, shift := b[at>>3:], at&7
	if len(b) > 8 {
		return binary.LittleEndian.Uint64(b)>>shift | uint64(b[8])<<1<<(63-shift)
	}
	var word uint64
	for i, octet := range b {
		word |= uint64(octet) << (8 * i)
	}
	return word >> shift
}

// unpack writes a byte, 0 or 1, for each of the bits from a position on.
func unpack(dst, b []byte, at int) {
	for ; len(dst) >= 8; at += 8 {
		binary.LittleEndian.PutUint64(dst, spread(b, at))
		dst = dst[8:]
	}
	if len(dst) > 0 {
		var rest [8]byte
		binary.LittleEndian.PutUint64(rest[:], spread(b, at))
		copy(dst, rest[:])
	}
}

// spread returns eight bytes, 0 or 1, for the eight bits from a position on.
func spread(b []byte, at int) uint64 {
	octet, shift := uint64(b[at>>3]), at&7
	if shift > 0 && at>>3+1 < len(b) {
		octet |= uint64(b[at>>3+1]) << 8
	}
	octet = octet >> shift & 0xff
	// Each byte of the product has the octet; the mask keeps bit i in byte i, and the sum moves it to bit 7.
	kept := octet * 0x0101010101010101 & 0x8040201008040201
	return (kept + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101
}

// fillNulls sets the elements that are null to a value, which has the bytes of one element. dst
// begins with value from of v.
func fillNulls(dst []byte, v validity, from int, fill []byte) {
	if v.bits == nil {
		return
	}
	switch len(fill) {
	case 1:
		fillIn(dst, v, from, fill[0])
	case 2:
		fillIn(as[uint16](dst), v, from, binary.LittleEndian.Uint16(fill))
	case 4:
		fillIn(as[uint32](dst), v, from, binary.LittleEndian.Uint32(fill))
	case 8:
		fillIn(as[uint64](dst), v, from, binary.LittleEndian.Uint64(fill))
	}
}

// fillIn has no branch per element: nulls at random would mispredict each of them.
func fillIn[T uint8 | uint16 | uint32 | uint64](dst []T, v validity, from int, fill T) {
	for at := 0; at < len(dst); at += 64 {
		part := dst[at:min(at+64, len(dst))]
		missing := ^bitsAt(v.bits, v.start+from+at)
		if missing&(1<<len(part)-1) == 0 {
			continue
		}
		for i, value := range part {
			null := -T(missing >> (i & 63) & 1)
			part[i] = value&^null | fill&null
		}
	}
}

// repeat fills memory with copies of a value.
func repeat(dst, value []byte) {
	for n := copy(dst, value); n > 0 && n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
