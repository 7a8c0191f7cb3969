package expr

import (
	"iter"
	"math"
	"math/bits"
	"slices"
)

// all returns a bitmap of all rows.
func (e *evaluation) all() []uint64 {
	set := e.bitmap()
	for w := range set {
		set[w] = math.MaxUint64
	}
	if tail := e.rows & 63; tail != 0 {
		set[len(set)-1] = 1<<tail - 1
	}
	return set
}

// bitmap returns a bitmap with undefined contents, for the rows of the batch. Pass
// it to recycle after use.
func (e *evaluation) bitmap() []uint64 {
	n := (e.rows + 63) / 64
	if last := len(e.free) - 1; last >= 0 {
		set := e.free[last]
		e.free = e.free[:last]
		return slices.Grow(set[:0], n)[:n]
	}
	return make([]uint64, n)
}

// copyOf returns a bitmap with the contents of another one.
func (e *evaluation) copyOf(rows []uint64) []uint64 {
	set := e.bitmap()
	copy(set, rows)
	return set
}

// eachRow iterates over the rows of a set.
func eachRow(set []uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range set {
			for ; word != 0; word &= word - 1 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

func (e *evaluation) recycle(set []uint64) { e.free = append(e.free, set) }

// appendRows appends the numbers of the rows in a set.
func appendRows(dst []int32, set []uint64) []int32 {
	n := 0
	for _, word := range set {
		n += bits.OnesCount64(word)
	}
	dst = slices.Grow(dst, n)
	for w, word := range set {
		row := int32(w) * 64
		if word == math.MaxUint64 {
			for i := range int32(64) {
				dst = append(dst, row+i)
			}
			continue
		}
		for ; word != 0; word &= word - 1 {
			dst = append(dst, row+int32(bits.TrailingZeros64(word)))
		}
	}
	return dst
}

// subtract removes the rows of b from a.
func subtract(a, b []uint64) {
	for w := range a {
		a[w] &^= b[w]
	}
}
