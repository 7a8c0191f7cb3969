package joiner

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/bits"
)

// hashIndex finds the staging rows of a key: open addressing over references, whose
// keys are compared in place. It is a quarter full, so that a lookup nearly always
// ends at its first slot and branches are predicted well.
type hashIndex struct {
	integral bool      // whether keys are numbers
	keys     keyVector // of all rows, in order; null is not set
	slots    []uint32  // 0, or the reference (row + 1) of a key's first row
}

func newHashIndex(keys keyVector, rows int64) *hashIndex {
	return &hashIndex{integral: keys.ends == nil, keys: keys, slots: make([]uint32, slotsFor(rows))}
}

// fill indexes all rows that are not dead, in order.
func (x *hashIndex) fill(ctx context.Context, dead []bool, repeats *groupBuilder) error {
	rows := len(x.keys.ints)
	if !x.integral {
		rows = len(x.keys.ends) - 1
	}
	for row := range rows {
		if row%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if dead != nil && dead[row] {
			continue
		}
		if first := x.add(int32(row)); first != 0 {
			if err := repeats.addRepeat(int32(row), int32(first-1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkEvery is the number of rows after which ctx is checked.
const checkEvery = 1 << 16

func (x *hashIndex) newSearch() search { return hashSearch{x} }
func (x *hashIndex) strategy() string  { return "index" }
func (x *hashIndex) release()          {}

// hashSearch is one join's search in an index. It has no state.
type hashSearch struct{ *hashIndex }

func (s hashSearch) lookup(_ context.Context, keys *Keys, refs []int32) error {
	s.lookupAll(keys.encoded, refs)
	return nil
}

// slotsFor returns the number of slots for n rows. At least one is always empty.
func slotsFor(n int64) int64 { return 4*n + 1 }

// Seeds of the hash: odd numbers with evenly distributed bits. The hash is independent
// of Iceberg's bucket hash, whose values are similar for all keys of a bucket.
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

// hashInt uses the key in both factors, so that keys that differ only in their upper
// bits are well distributed, too.
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

// home returns the first of n slots that is searched for a hash: the hash's upper
// bits, scaled to n.
func home(hash uint64, n int) uint64 {
	at, _ := bits.Mul64(hash, uint64(n))
	return at
}

// findInt returns the slot of a key, or the empty slot for it, and the slot's content.
func findInt(slots []uint32, keys []int64, key int64) (at uint64, ref uint32) {
	for at = home(hashInt(key), len(slots)); ; at++ {
		if at == uint64(len(slots)) {
			at = 0
		}
		ref = slots[at]
		if ref == 0 || keys[ref-1] == key {
			return at, ref
		}
	}
}

// findBytes is findInt for keys of bytes.
func (x *hashIndex) findBytes(key []byte) (at uint64, ref uint32) {
	for at = home(hashBytes(key), len(x.slots)); ; at++ {
		if at == uint64(len(x.slots)) {
			at = 0
		}
		ref = x.slots[at]
		if ref == 0 || bytes.Equal(x.keys.key(int32(ref-1)), key) {
			return at, ref
		}
	}
}

// add indexes a row, after all rows before it. It returns the reference of the first
// row of its key, or 0 if that is the row itself.
func (x *hashIndex) add(row int32) uint32 {
	var at uint64
	var ref uint32
	if x.integral {
		at, ref = findInt(x.slots, x.keys.ints, x.keys.ints[row])
	} else {
		at, ref = x.findBytes(x.keys.key(row))
	}
	if ref == 0 {
		x.slots[at] = uint32(row + 1)
	}
	return ref
}

// lookupAll writes the reference of the first row of each key, or 0; for null keys the
// result is undefined. It only reads x. A key that equals the one before, as of
// rows of one request, is not looked up again.
func (x *hashIndex) lookupAll(wanted keyVector, refs []int32) {
	if x.integral {
		x.lookupInts(wanted.ints, refs)
	} else {
		x.lookupBytes(wanted, refs)
	}
}

// lookupBlock is the number of keys that lookupInts looks up at a time.
const lookupBlock = 256

// lookupInts looks up keys block by block, and in each block step by step: where the key changes, the home
// of each such key, the key of the row there. The loads of a step do not depend on each other, so that
// the processor waits for many of them at a time. An index that was not used lately is in no cache,
// and a loop over keys waits for its two loads key by key.
func (x *hashIndex) lookupInts(wanted []int64, refs []int32) {
	slots, keys := x.slots, x.keys.ints
	if len(keys) == 0 {
		clear(refs[:len(wanted)])
		return
	}
	var starts [lookupBlock + 1]int32
	var homes [lookupBlock]uint32
	var found [lookupBlock]int64
	for len(wanted) > 0 {
		block := wanted[:min(lookupBlock, len(wanted))]
		changes := keyChanges(block, &starts)
		for i, at := range starts[:changes] {
			homes[i] = slots[home(hashInt(block[at]), len(slots))]
		}
		for i, ref := range homes[:changes] {
			found[i] = keys[max(ref, 1)-1]
		}
		for i, ref := range homes[:changes] {
			from, to := starts[i], starts[i+1]
			if key := block[from]; ref != 0 && found[i] != key {
				_, ref = findInt(slots, keys, key)
			}
			for k := range refs[from:to] {
				refs[int(from)+k] = int32(ref)
			}
		}
		wanted, refs = wanted[len(block):], refs[len(block):]
	}
}

// keyChanges sets starts to the positions of the keys that differ from the one before, the first one
// included, and then the number of keys. It returns the number of such positions.
func keyChanges(keys []int64, starts *[lookupBlock + 1]int32) int {
	changes, before := 0, ^keys[0]
	for i, key := range keys {
		starts[changes] = int32(i)
		if key != before {
			changes++
		}
		before = key
	}
	starts[changes] = int32(len(keys))
	return changes
}

func (x *hashIndex) lookupBytes(v keyVector, refs []int32) {
	before := []byte{}
	_, ref := x.findBytes(before)
	for i := range refs {
		key := v.arena[v.ends[i]:v.ends[i+1]]
		if !bytes.Equal(key, before) {
			_, ref = x.findBytes(key)
			before = key
		}
		refs[i] = int32(ref)
	}
}
