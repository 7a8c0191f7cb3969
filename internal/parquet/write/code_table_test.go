package write

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFreedTablesAreEmpty frees tables with few and with many values for their slots. The codes of the next column are those of a new
// table.
func TestFreedTablesAreEmpty(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // cases of a test
	used := newCodeTable[int64]()
	for _, distinct := range []int64{10, 3000, 20, 5, 6000, 1, 100_000, 3} {
		var plain []byte
		for range 3 * distinct {
			plain = binary.LittleEndian.AppendUint64(plain, uint64(random.Int64N(distinct)*0x9e3779b97f4a7c1)) //nolint:gosec // any values
		}
		want, _ := newCodeTable[int64]().code(nil, plain)
		got, ok := used.code(nil, plain)
		require.True(t, ok)
		require.Equal(t, want, got)
		used.empty()
		require.Zero(t, used.count())
		for _, slot := range used.slots {
			require.Zero(t, slot)
		}
	}
}
