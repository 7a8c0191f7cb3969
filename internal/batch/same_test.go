package batch_test

import (
	"fmt"
	"hash/maphash"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// TestSameRow compares rows of all types, shifted and copied, by their values.
//
// spec: wire-19
func TestSameRow(t *testing.T) {
	t.Parallel()
	outcomes := map[bool]int{}
	for seed := range uint64(600) {
		s := newSource(seed)
		dt := s.dataType(3)
		a := s.array(dt, 1+s.IntN(12), seed%2 == 0)
		indices := s.indices(a.Len())
		for k := range indices { // repeat rows
			if k > 0 && s.IntN(2) == 0 {
				indices[k] = indices[k-1]
			}
		}
		b, err := batch.Gather(dt, []batch.Segment{{Values: a, Indices: indices}}, nil)
		require.NoError(t, err)
		x, y := valuesOf(a), valuesOf(b)
		for i := range x {
			for j := range y {
				same := fmt.Sprintf("%#v", x[i]) == fmt.Sprintf("%#v", y[j])
				outcomes[same]++
				require.Equal(t, same, batch.SameRow(a, i, b, j), "seed %d, %s: %v and %v", seed, dt, x[i], y[j])
			}
		}
		for j, i := range indices {
			require.True(t, batch.SameRow(a, int(i), b, j), "seed %d, %s", seed, dt)
		}
		requireRepeats(t, s, b)
	}
	require.Greater(t, outcomes[true], 500)
	require.Greater(t, outcomes[false], 500)
}

// requireRepeats compares Repeats with SameRow, for all rows of an array.
func requireRepeats(t *testing.T, s source, a arrow.Array) {
	t.Helper()
	from := s.IntN(a.Len() + 1)
	a = array.NewSlice(a, int64(from), int64(a.Len()))
	same, looked := make([]bool, a.Len()), make([]bool, a.Len())
	for i := range same {
		looked[i] = s.IntN(4) > 0
		same[i] = looked[i]
	}
	batch.Repeats(a, same)
	for i := range same {
		require.Equal(t, looked[i] && i > 0 && batch.SameRow(a, i-1, a, i), same[i], "row %d of %s", i, a)
	}
}

// TestSameRowComparesFloatsByBits: 0 and -0 differ, and NaNs with the same bits do not.
//
// spec: wire-19
func TestSameRowComparesFloatsByBits(t *testing.T) {
	t.Parallel()
	other := math.Float64frombits(math.Float64bits(math.NaN()) + 1)
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues([]float64{0, math.Copysign(0, -1), math.NaN(), other, math.NaN()}, nil)
	b.AppendNull()
	a := b.NewFloat64Array()
	defer a.Release()
	for i := range a.Len() {
		for j := range a.Len() {
			want := i == j || i == 2 && j == 4 || i == 4 && j == 2
			require.Equal(t, want, batch.SameRow(a, i, a, j), "%d and %d", i, j)
		}
	}
	dictionary := array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.PrimitiveTypes.Float64},
		array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, 1, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 4))}, nil, 0, 0)), a)
	require.False(t, batch.SameRow(dictionary, 0, dictionary, 0), "rows of unsupported types are never the same")
}

// TestHashRow: the same rows have one hash, and different rows nearly always differ.
func TestHashRow(t *testing.T) {
	t.Parallel()
	seed := maphash.MakeSeed()
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues([]string{"", "a", "b", "a", ""}, nil)
	a := b.NewArray()
	require.Equal(t, batch.HashRow(seed, a, 1), batch.HashRow(seed, array.NewSlice(a, 2, 5), 1))
	require.Equal(t, batch.HashRow(seed, a, 0), batch.HashRow(seed, a, 4))
	require.NotEqual(t, batch.HashRow(seed, a, 1), batch.HashRow(seed, a, 2))
	n := int64s(1, 2, 1)
	require.Equal(t, batch.HashRow(seed, n, 0), batch.HashRow(seed, n, 2))
	require.NotEqual(t, batch.HashRow(seed, n, 0), batch.HashRow(seed, n, 1))
}
