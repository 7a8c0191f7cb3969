package operator

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// LoadBits returns n bits, at most 64, that start at a bit position of a bitmap. Higher bits are
// arbitrary.
func LoadBits(bitmap []byte, position, n int) uint64 {
	at, shift := position>>3, uint(position&7)
	if at+9 <= len(bitmap) {
		return binary.LittleEndian.Uint64(bitmap[at:])>>shift | uint64(bitmap[at+8])<<(64-shift)
	}
	var word uint64
	for i := (position + n - 1) >> 3; i > at; i-- {
		word = word<<8 | uint64(bitmap[i])
	}
	return word<<(8-shift) | uint64(bitmap[at])>>shift
}

// Validity returns a function that returns the bits of the rows from begin to end, of which there
// are at most 64, that are not null. Other bits are arbitrary. It does not call NullN, because
// arrays store its result without a lock, and other goroutines may use the same array.
func Validity(a arrow.Array) func(begin, end int) uint64 {
	bitmap, offset := a.NullBitmapBytes(), a.Data().Offset()
	switch {
	case a.DataType().ID() == arrow.NULL:
		return func(int, int) uint64 { return 0 }
	case len(bitmap) == 0:
		return func(int, int) uint64 { return math.MaxUint64 }
	default:
		return func(begin, end int) uint64 { return LoadBits(bitmap, offset+begin, end-begin) }
	}
}

// validity returns the bits of the rows in which no operand is null; nil if there is no null.
func (r Rows) validity(operands ...arrow.Array) *memory.Buffer {
	var out *memory.Buffer
	for _, a := range operands {
		if len(a.NullBitmapBytes()) == 0 && a.DataType().ID() != arrow.NULL {
			continue
		}
		word := Validity(a)
		if a.Len() != r.Count {
			if word(0, 1)&1 == 1 {
				continue
			}
			word = func(int, int) uint64 { return 0 }
		}
		if out == nil {
			out = r.Bitmap(word)
			continue
		}
		r.clear(out, word)
	}
	return out
}

// Bitmap returns a bitmap of the results of word for all rows.
func (r Rows) Bitmap(word func(begin, end int) uint64) *memory.Buffer {
	out := r.buffer((r.Count + 7) / 8)
	r.eachWord(func(begin, end int) { storeBits(out.Bytes(), begin, end, word(begin, end)) })
	return out
}

// clear clears the bits of a bitmap that are not in word.
func (r Rows) clear(bitmap *memory.Buffer, word func(begin, end int) uint64) {
	r.eachWord(func(begin, end int) {
		storeBits(bitmap.Bytes(), begin, end, word(begin, end)&LoadBits(bitmap.Bytes(), begin, end-begin))
	})
}

func (r Rows) eachWord(visit func(begin, end int)) {
	for begin := 0; begin < r.Count; begin += 64 {
		visit(begin, min(begin+64, r.Count))
	}
}

// storeBits stores the bits of the rows from begin, a multiple of 64, to end.
func storeBits(bitmap []byte, begin, end int, word uint64) {
	if end-begin == 64 {
		binary.LittleEndian.PutUint64(bitmap[begin/8:], word)
		return
	}
	word &= 1<<(uint(end-begin)&63) - 1
	for at := begin / 8; at < (end+7)/8; at++ {
		bitmap[at] = byte(word)
		word >>= 8
	}
}

// OrBits sets those bits of a bitmap, from a bit position on, that are set in word. No bit of word is
// set beyond the end of the bitmap.
func OrBits(bitmap []byte, position int, word uint64) {
	at, shift := position>>3, uint(position&7)
	for low := word << shift; low != 0; low >>= 8 {
		bitmap[at] |= byte(low)
		at++
	}
	if high := word >> (64 - shift); high != 0 {
		bitmap[position>>3+8] |= byte(high)
	}
}

// countBits counts the set bits among the first n.
func countBits(bitmap []byte, n int) int {
	count := 0
	for at := 0; at < n; at += 64 {
		word := LoadBits(bitmap, at, min(64, n-at))
		if rest := n - at; rest < 64 {
			word &= 1<<uint(rest) - 1
		}
		count += bits.OnesCount64(word)
	}
	return count
}
