package joiner

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// index finds the staging rows of a key: open addressing over row numbers,
// half of the slots empty, so that a probe ends after one or two. Keys are
// compared where they lie, behind a tag that saves most comparisons.
//
// A slot is 0, or the low half of the hash in the upper 32 bits and the
// reference (row + 1) of the key's first row in the lower.
type index struct {
	integral bool   // whether keys are numbers
	keys     vector // of all rows, in order; null is not set
	slots    []uint64
	// last holds, by a key's first row, its last row if there are several,
	// and 0 else. It is nil while no key has two rows.
	last []int32
}

// slotsFor returns how many slots n rows need. One is always empty.
func slotsFor(n int64) int64 { return 2*n + 1 }

// Seeds of the hash; any odd numbers with bits spread evenly. The hash has
// nothing in common with Iceberg's bucket hash, in which the keys of one
// bucket agree.
const (
	seedA = 0x9e3779b97f4a7c15
	seedB = 0xd1b54a32d192ed03
	seedC = 0x8bb84b93962eacc9
)

// mix folds the 128-bit product of two numbers.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// hashInt brings the key into both factors, so that keys which differ in their
// upper bits alone spread like others.
func hashInt(key int64) uint64 {
	return mix(uint64(key)^seedA, bits.RotateLeft64(uint64(key), 32)^seedB)
}

func hashBytes(key []byte) uint64 {
	h := seedA ^ uint64(len(key))
	for ; len(key) >= 8; key = key[8:] {
		h = mix(h^binary.LittleEndian.Uint64(key), seedB)
	}
	if len(key) > 0 {
		var tail [8]byte
		copy(tail[:], key)
		h = mix(h^binary.LittleEndian.Uint64(tail[:]), seedC)
	}
	return mix(h, seedC)
}

// home returns the slot at which the search for a hash begins: the hash's
// upper bits, spread over any number of slots.
func (x *index) home(hash uint64) uint64 {
	at, _ := bits.Mul64(hash, uint64(len(x.slots)))
	return at
}

// key returns the bytes of a row's key.
func (x *index) key(row int32) []byte {
	return x.keys.arena[x.keys.ends[row]:x.keys.ends[row+1]]
}

// findInt returns the slot of a key, or the empty slot where it belongs, and
// what is in it.
func (x *index) findInt(key int64, hash uint64) (at, slot uint64) {
	for at = x.home(hash); ; at++ {
		if at == uint64(len(x.slots)) {
			at = 0
		}
		slot = x.slots[at]
		if slot == 0 || slot>>32 == hash&(1<<32-1) && x.keys.ints[uint32(slot)-1] == key {
			return at, slot
		}
	}
}

// findBytes is findInt for keys of bytes.
func (x *index) findBytes(key []byte, hash uint64) (at, slot uint64) {
	for at = x.home(hash); ; at++ {
		if at == uint64(len(x.slots)) {
			at = 0
		}
		slot = x.slots[at]
		if slot == 0 || slot>>32 == hash&(1<<32-1) && bytes.Equal(x.key(int32(slot)-1), key) {
			return at, slot
		}
	}
}

// add indexes a row, after all rows before it. It returns false, and did
// nothing, if the row is the first that repeats a key and there is no last.
func (x *index) add(row int32) bool {
	var at, slot, hash uint64
	if x.integral {
		key := x.keys.ints[row]
		hash = hashInt(key)
		at, slot = x.findInt(key, hash)
	} else {
		key := x.key(row)
		hash = hashBytes(key)
		at, slot = x.findBytes(key, hash)
	}
	switch {
	case slot == 0:
		x.slots[at] = hash<<32 | uint64(row+1)
	case x.last == nil:
		return false
	default:
		x.last[uint32(slot)-1] = row
	}
	return true
}

// lookup writes the reference of the first row of each key, or 0. It only
// reads x. Rows of one request are neighbours, so a key like the one before
// is not looked up again.
func (x *index) lookup(v vector, refs []int32) {
	if x.integral {
		x.lookupInts(v.ints, refs)
	} else {
		x.lookupBytes(v, refs)
	}
	for i, null := range v.null {
		if null {
			refs[i] = 0
		}
	}
}

func (x *index) lookupInts(keys []int64, refs []int32) {
	before := int64(0)
	_, slot := x.findInt(before, hashInt(before))
	for i, key := range keys {
		if key != before {
			_, slot = x.findInt(key, hashInt(key))
			before = key
		}
		refs[i] = int32(slot)
	}
}

func (x *index) lookupBytes(v vector, refs []int32) {
	before := []byte{}
	_, slot := x.findBytes(before, hashBytes(before))
	for i := range refs {
		key := v.arena[v.ends[i]:v.ends[i+1]]
		if !bytes.Equal(key, before) {
			_, slot = x.findBytes(key, hashBytes(key))
			before = key
		}
		refs[i] = int32(slot)
	}
}
