package write

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// codeTable numbers distinct values in the order of their first use. It is a hash table with open
// addressing. A slot has only a code, which takes 4 bytes, instead of a value and its hash, so that
// the table stays in the processor's caches. The library's table takes six times the memory, and
// several times the time (benchmarks/results/2026-11-27-stage.md).
type codeTable[T int32 | int64] struct {
	values []T      // by code
	slots  []uint32 // code + 1; 0: empty. Their number is a power of two, and at least twice that of the values.
	shift  int      // by how many bits a hash is shifted to get a slot
}

// firstSlotBits is the base-2 logarithm of the number of slots of a new table.
const firstSlotBits = 10

func newCodeTable[T int32 | int64]() *codeTable[T] {
	t := &codeTable[T]{}
	t.resize(firstSlotBits)
	return t
}

// takeTable returns an empty table: one that was used before, or a new one.
func takeTable[T int32 | int64](used *sync.Pool) *codeTable[T] {
	if used != nil {
		if t, ok := used.Get().(*codeTable[T]); ok {
			return t
		}
	}
	return newCodeTable[T]()
}

// fewValues is the number of slots per value from which on the slots of the values are cleared one by one.
const fewValues = 16

// empty removes all values.
func (t *codeTable[T]) empty() {
	if fewValues*len(t.values) > len(t.slots) {
		clear(t.slots)
		t.values = t.values[:0]
		return
	}
	mask := uint64(len(t.slots) - 1)
	for code, v := range t.values {
		at := t.slot(v)
		for t.slots[at] != uint32(code)+1 { // also past the slots of earlier values, which are clear
			at = (at + 1) & mask
		}
		t.slots[at] = 0
	}
	t.values = t.values[:0]
}

// slot returns where the search for a value starts.
func (t *codeTable[T]) slot(v T) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(v) * odd
	return (h ^ h>>32) * odd >> t.shift
}

// resize makes slots for the values, and room for as many values as fit in the slots.
func (t *codeTable[T]) resize(slotBits int) {
	t.slots, t.shift = make([]uint32, 1<<slotBits), 64-slotBits
	t.values = slices.Grow(t.values, len(t.slots)/2+1-len(t.values))
	mask := uint64(len(t.slots) - 1)
	for code, v := range t.values {
		at := t.slot(v)
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = uint32(code) + 1
	}
}

// append appends the codes of values. It returns false if the table would get more values than
// limit.
func (t *codeTable[T]) append(codes []uint32, values []T, limit int) ([]uint32, bool) {
	for _, v := range values {
		mask := uint64(len(t.slots) - 1)
		at := t.slot(v)
		for t.slots[at] != 0 && t.values[t.slots[at]-1] != v {
			at = (at + 1) & mask
		}
		if t.slots[at] == 0 {
			if len(t.values) >= limit {
				return codes, false
			}
			t.values = append(t.values, v)
			t.slots[at] = uint32(len(t.values))
			codes = append(codes, uint32(len(t.values)-1))
			if 2*len(t.values) > len(t.slots) {
				t.resize(bits.Len(uint(len(t.slots))))
			}
			continue
		}
		codes = append(codes, t.slots[at]-1)
	}
	return codes, true
}

// valueCodes is a codeTable of plain values.
type valueCodes interface {
	// code appends the codes of plain values. It returns false if the dictionary would be too large.
	code(codes []uint32, plain []byte) ([]uint32, bool)
	// count returns the number of values in the dictionary.
	count() int
	// plain returns the first values of the dictionary.
	plain(count int) []byte
	// width returns the bytes of a value.
	width() int
	// empty removes all values.
	empty()
}

func (t *codeTable[T]) width() int { return int(unsafe.Sizeof(T(0))) }
func (t *codeTable[T]) count() int { return len(t.values) }

func (t *codeTable[T]) code(codes []uint32, plain []byte) ([]uint32, bool) {
	const batch = 256 // number of values that are read at a time
	var values [batch]T
	codes = slices.Grow(codes, len(plain)/t.width())
	for len(plain) > 0 {
		n := min(len(plain)/t.width(), batch)
		for i := range n {
			if t.width() == 8 {
				values[i] = T(binary.LittleEndian.Uint64(plain[8*i:]))
			} else {
				values[i] = T(binary.LittleEndian.Uint32(plain[4*i:]))
			}
		}
		var ok bool
		if codes, ok = t.append(codes, values[:n], dictionaryBytes/t.width()); !ok {
			return codes, false
		}
		plain = plain[n*t.width():]
	}
	return codes, true
}

func (t *codeTable[T]) plain(count int) []byte {
	out := make([]byte, 0, count*t.width())
	for _, v := range t.values[:count] {
		if t.width() == 8 {
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		} else {
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		}
	}
	return out
}

// repeats is the minimum number of consecutive equal codes that are stored as a run.
const repeats = 8

// appendCodes appends codes in Parquet's hybrid of runs and packed bits.
func appendCodes(out []byte, codes []uint32, width int) []byte {
	packed := 0 // index of the first code that is not appended yet
	for at := 0; at < len(codes); {
		run := at + 1
		for run < len(codes) && codes[run] == codes[at] {
			run++
		}
		if run-at < repeats {
			at = min(at+repeats, len(codes))
			continue
		}
		out = appendPacked(out, codes[packed:at], width)
		out = binary.AppendUvarint(out, uint64(run-at)<<1)
		for shift := 0; shift < width; shift += 8 {
			out = append(out, byte(codes[at]>>shift))
		}
		at, packed = run, run
	}
	return appendPacked(out, codes[packed:], width)
}

// appendPacked appends codes as packed bits, in groups of eight. The last group is filled up with
// zeros.
func appendPacked(out []byte, codes []uint32, width int) []byte {
	if len(codes) == 0 {
		return out
	}
	groups := (len(codes) + repeats - 1) / repeats
	out = binary.AppendUvarint(out, uint64(groups)<<1|1)
	end := len(out) + groups*width
	held, count := uint64(0), 0
	for _, c := range codes {
		held |= uint64(c) << count
		if count += width; count >= 32 {
			out = binary.LittleEndian.AppendUint32(out, uint32(held))
			held, count = held>>32, count-32
		}
	}
	for ; len(out) < end; held >>= 8 {
		out = append(out, byte(held))
	}
	return out[:end]
}
