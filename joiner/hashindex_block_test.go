package joiner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBlocksOfKeysAgree compares looking keys up in blocks with looking them up one by one: keys of runs that
// cross the ends of blocks, keys that the index lacks, and an index without rows.
func TestBlocksOfKeysAgree(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, rows := range []int{0, 1, 40, 3000} {
		x := &hashIndex{integral: true, slots: make([]uint32, slotsFor(int64(rows)))}
		for range rows {
			x.keys.ints = append(x.keys.ints, r.Int64N(int64(rows))*3-7)
		}
		for row := range rows {
			x.add(int32(row))
		}
		for _, count := range []int{1, lookupBlock - 1, lookupBlock, lookupBlock + 1, 5 * lookupBlock} {
			wanted, want := make([]int64, count), make([]int32, count)
			key := int64(0)
			for i := range wanted {
				if i == 0 || r.IntN(6) == 0 {
					key = r.Int64N(int64(3*rows+10)) - 9
				}
				_, ref := findInt(x.slots, x.keys.ints, key)
				wanted[i], want[i] = key, int32(ref)
			}
			refs := make([]int32, count)
			x.lookupInts(wanted, refs)
			require.Equal(t, want, refs, "%d rows, %d keys", rows, count)
		}
	}
}
