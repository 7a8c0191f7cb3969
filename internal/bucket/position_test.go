package bucket_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/fault"
)

func longs(n int, of func(int) int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(of(i))
	}
	return b.NewArray()
}

// TestPositionsReverseTheDigits compares intervals of hash space with the buckets
// that they must equal.
func TestPositionsReverseTheDigits(t *testing.T) {
	const rows = 20_000
	keys := longs(rows, func(i int) int64 { return int64(i) })
	at, err := bucket.Positions(nil, keys)
	require.NoError(t, err)
	require.Len(t, at, rows)
	for _, n := range []int{1, 2, 4, 16, 64} {
		order := digitReversed(n)
		for i, p := range at {
			h := bucket.HashInt64(int64(i))
			require.Equal(t, order[int(p*float64(n))], buckettest.Of(h, n), "of %d", n)
		}
	}
	low := 0
	for _, p := range at {
		require.GreaterOrEqual(t, p, 0.0)
		require.Less(t, p, 1.0)
		if p < 0.25 {
			low++
		}
	}
	require.InDelta(t, rows/4, low, rows/50)
}

func TestPositionsIgnoreBytesUnderNulls(t *testing.T) {
	ints := array.NewInt32Builder(memory.DefaultAllocator)
	long := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range int32(100) {
		if i%7 == 0 {
			// The value under a null must not matter.
			ints.AppendNull()
			long.AppendEmptyValue()
			continue
		}
		ints.Append(i - 50)
		long.Append(int64(i) - 50)
	}
	a, b := ints.NewArray(), long.NewArray()
	one, err := bucket.Positions([]float64{-1}, a)
	require.NoError(t, err)
	require.InDelta(t, -1, one[0], 0)
	require.Zero(t, one[1], "a null counts as the hash 0")
	other, err := bucket.Positions(nil, array.NewSlice(b, 1, 100))
	require.NoError(t, err)
	for i := 1; i < 100; i++ {
		if i%7 != 0 {
			require.InDelta(t, one[i+1], other[i-1], 0, "int and long of %d", i-50)
		}
	}
}

func TestPositionsOfSeveralColumns(t *testing.T) {
	const rows = 4000
	a, b := longs(rows, func(i int) int64 { return int64(i % 2) }), longs(rows, func(i int) int64 { return int64(i / 2) })
	ab, err := bucket.Positions(nil, a, b)
	require.NoError(t, err)
	ba, err := bucket.Positions(nil, b, a)
	require.NoError(t, err)
	require.NotEqual(t, ab, ba)
	again, err := bucket.Positions(nil, array.NewSlice(a, 100, 200), array.NewSlice(b, 100, 200))
	require.NoError(t, err)
	require.Equal(t, ab[100:200], again)
	var of [2][]int
	of[0], of[1] = make([]int, 8), make([]int, 8)
	for i, p := range ab {
		of[i%2][int(p*8)]++
	}
	for _, counts := range of {
		for _, n := range counts {
			require.InDelta(t, rows/16, n, rows/50, "positions crowd: %v", of)
		}
	}
}

func TestPositionsRefuseTypesWithoutBuckets(t *testing.T) {
	floats := array.NewFloat64Builder(memory.DefaultAllocator)
	floats.Append(1)
	_, err := bucket.Positions(nil, floats.NewArray())
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestInRangeWraps(t *testing.T) {
	for _, c := range []struct{ from, to float64 }{{0, 1}, {0.25, 0.5}, {0, 0.25}, {0.75, 1}, {0.5, 0.5001}} {
		for p := range 1000 {
			at := float64(p) / 1000
			require.NotEqual(t, bucket.InRange(at, c.from, c.to), bucket.InRange(at, c.to, c.from), "%v in [%v, %v)", at, c.from, c.to)
			require.False(t, bucket.InRange(at, c.from, c.from))
		}
	}
}

// TestMayHold compares MayHold of every bucket with the positions of keys.
func TestMayHold(t *testing.T) {
	const rows = 50_000
	random := rand.New(rand.NewPCG(3, 4))
	at, err := bucket.Positions(nil, longs(rows, func(i int) int64 { return int64(i) }))
	require.NoError(t, err)
	for _, n := range []int{1, 2, 3, 8, 12, 16, 20, 48} {
		exact := n & -n
		for range 40 {
			from, to := float64(random.IntN(97))/96, float64(random.IntN(97))/96
			held := make([]bool, n)    // a row of the bucket lies in the range
			classes := make([]bool, n) // a row of its class modulo the power of two does
			for i, p := range at {
				if bucket.InRange(p, from, to) {
					b := buckettest.Of(bucket.HashInt64(int64(i)), n)
					held[b], classes[b%exact] = true, true
				}
			}
			for b := range n {
				may := bucket.MayHold(int32(b), n, from, to)
				require.True(t, may || !held[b], "bucket %d of %d has rows in [%v, %v)", b, n, from, to)
				require.Equal(t, classes[b%exact], may, "bucket %d of %d, [%v, %v)", b, n, from, to)
			}
			require.Equal(t, bucket.InRange(0, from, to), bucket.MayHold(bucket.Null, n, from, to))
		}
	}
	for b := range int32(16) {
		require.Equal(t, b == 0, bucket.MayHold(b, 16, 0, 1.0/16))
		require.Equal(t, b != 0, bucket.MayHold(b, 16, 1.0/16, 0))
		require.Equal(t, b == 0 || b == 15, bucket.MayHold(b, 16, 15.0/16, 1.0/16))
	}
}

func BenchmarkPositions(b *testing.B) {
	const rows = 8192
	a := longs(rows, func(i int) int64 { return int64(i) * 7919 })
	var dst []float64
	for b.Loop() {
		dst, _ = bucket.Positions(dst[:0], a)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
