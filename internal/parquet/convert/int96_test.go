package convert

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func int96(day int32, nanos int64) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(nanos))
	return binary.LittleEndian.AppendUint32(out, uint32(day))
}

// TestInt96 compares with arbitrary-precision arithmetic.
func TestInt96(t *testing.T) {
	t.Parallel()
	check := func(day int32, nanos int64) {
		total := new(big.Int).Mul(big.NewInt(int64(day)-2_440_588), big.NewInt(86_400_000_000_000))
		total.Add(total, big.NewInt(nanos))
		micros := new(big.Int).Div(total, big.NewInt(1000)) // down, also below zero
		got, ok := int96ToMicros(int96(day, nanos))
		require.Equal(t, micros.IsInt64(), ok, "%d %d", day, nanos)
		if ok {
			require.Equal(t, micros.Int64(), got, "%d %d", day, nanos)
		}
		got, ok = int96ToNanos(int96(day, nanos))
		require.Equal(t, total.IsInt64(), ok, "%d %d", day, nanos)
		if ok {
			require.Equal(t, total.Int64(), got, "%d %d", day, nanos)
		}
	}
	days := []int32{math.MinInt32, -1, 0, 1, 1_721_426, 2_333_836, 2_333_837, 2_440_587, 2_440_588, 2_440_589, 2_547_339, 2_547_340, 5_373_484, 109_192_579, 109_192_580, math.MaxInt32}
	rests := []int64{math.MinInt64, -86_400_000_000_001, -86_400_000_000_000, -1001, -1000, -1, 0, 1, 999, 1000, 763_145_224_192, 85_636_854_775_807, 86_399_999_999_999, 86_400_000_000_000, math.MaxInt64}
	for _, day := range days {
		for _, rest := range rests {
			check(day, rest)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		check(int32(random.Uint32()), int64(random.Uint64())>>random.IntN(64))
		check(1_721_426+random.Int32N(3_652_059), random.Int64N(86_400_000_000_000))
	}
}

// TestInt96EveryDay compares the start of each day of the years 1 to 9999 with the
// calendar; in short runs of every eleventh.
func TestInt96EveryDay(t *testing.T) {
	t.Parallel()
	step := 11
	if os.Getenv("PENSTOCK_LONG") == "1" {
		step = 1
	}
	at := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	for day := int32(1_721_426); at.Year() < 10_000; day += int32(step) {
		got, ok := int96ToMicros(int96(day, 1_000_999))
		if !ok || got != at.UnixMicro()+1000 {
			t.Fatalf("%s is %d", at, got)
		}
		at = at.AddDate(0, 0, step)
	}
}
