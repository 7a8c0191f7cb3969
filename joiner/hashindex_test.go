package joiner

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys of one bucket have similar Iceberg hashes, and come in patterns: consecutive, in steps,
// or only in the upper half. Searches must be short for all of them.
func TestSearchesAreShort(t *testing.T) {
	const n = 1 << 13
	r := rand.New(rand.NewPCG(5, 6))
	ints := map[string]func(i int) int64{
		"in a row":        func(i int) int64 { return int64(i) },
		"downwards":       func(i int) int64 { return -int64(i) },
		"steps of 16":     func(i int) int64 { return int64(i) * 16 },
		"steps of 2^32":   func(i int) int64 { return int64(i) << 32 },
		"steps of 2^48":   func(i int) int64 { return int64(i) << 48 },
		"steps of a day":  func(i int) int64 { return int64(i) * 86_400_000_000 },
		"two halves":      func(i int) int64 { return int64(i)<<32 | int64(i) },
		"random":          func(int) int64 { return int64(r.Uint64()) },
		"random multiple": func(int) int64 { return int64(r.Uint64() &^ 0xffffff) },
	}
	for name, key := range ints {
		t.Run(name, func(t *testing.T) {
			x := hashIndex{integral: true, slots: make([]uint32, slotsFor(n))}
			for i := range n {
				x.keys.ints = append(x.keys.ints, key(i))
				require.Zero(t, x.add(int32(i)))
			}
			short(t, &x, func(i int) uint64 { return hashInt(x.keys.ints[i]) }, n)
		})
	}
	texts := map[string]func(i int) string{
		"digits":     func(i int) string { return strconv.Itoa(i) },
		"padded":     func(i int) string { return fmt.Sprintf("%032d", i) },
		"one prefix": func(i int) string { return fmt.Sprintf("request-%d-of-2026-10-01", i) },
		"lengths":    func(i int) string { return string(make([]byte, i%128)) + strconv.Itoa(i/128) },
		"two words": func(i int) string {
			return string([]byte{byte(i), 0, 0, 0, 0, 0, 0, 0, byte(i >> 8), 0, 0, 0, 0, 0, 0, 0})
		},
	}
	for name, key := range texts {
		t.Run(name, func(t *testing.T) {
			x := hashIndex{slots: make([]uint32, slotsFor(n))}
			x.keys.ends = []int64{0}
			for i := range n {
				x.keys.arena = append(x.keys.arena, key(i)...)
				x.keys.ends = append(x.keys.ends, int64(len(x.keys.arena)))
				require.Zero(t, x.add(int32(i)))
			}
			short(t, &x, func(i int) uint64 { return hashBytes(x.keys.key(int32(i))) }, n)
		})
	}
}

// short asserts that rows are near the slots where searches for them start.
func short(t *testing.T, x *hashIndex, hash func(i int) uint64, n int) {
	t.Helper()
	at := map[int32]int{}
	for i, slot := range x.slots {
		if slot != 0 {
			at[int32(slot)-1] = i
		}
	}
	require.Len(t, at, n)
	sum, longest := 0, 0
	for row, slot := range at {
		steps := (slot - int(home(hash(int(row)), len(x.slots))) + len(x.slots)) % len(x.slots)
		sum, longest = sum+steps, max(longest, steps)
	}
	require.Less(t, float64(sum)/float64(n), 0.4, "mean steps beyond the first slot; chance gives 0.17")
	require.Less(t, longest, 100)
}

// A search that starts in the last slots continues in the first.
func TestSearchesWrapAround(t *testing.T) {
	for n := 1; n < 40; n++ {
		x := hashIndex{integral: true, slots: make([]uint32, slotsFor(int64(n)))}
		for key := int64(0); len(x.keys.ints) < n; key++ {
			if home(hashInt(key), len(x.slots)) >= uint64(len(x.slots)-2) {
				x.keys.ints = append(x.keys.ints, key)
				require.Zero(t, x.add(int32(len(x.keys.ints)-1)))
			}
		}
		refs := make([]int32, n)
		x.lookupInts(x.keys.ints, refs)
		for i, ref := range refs {
			require.EqualValues(t, i+1, ref)
		}
	}
}
