package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSortedNumbers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	edges := []float64{math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64}
	for _, n := range []int{0, 1, minDigits - 1, minDigits, 3 * minDigits} {
		for shift := range 64 { // fewer and fewer digits differ
			integers, floats := make([]int64, n), make([]float64, n)
			for i := range n {
				integers[i] = int64(r.Uint64()) >> shift
				if floats[i] = math.Float64frombits(r.Uint64() << shift); math.IsNaN(floats[i]) {
					floats[i] = edges[i%len(edges)]
				}
			}
			wantIntegers, wantFloats := slices.Sorted(slices.Values(integers)), slices.Sorted(slices.Values(floats))
			sortIntegers(integers)
			sortFloats(floats)
			require.Equal(t, wantIntegers, slices.AppendSeq([]int64(nil), slices.Values(integers)))
			for i, v := range floats {
				require.True(t, v == wantFloats[i] && !(v == 0 && math.Signbit(v)), "%v at %d of %d", v, i, n)
			}
		}
	}
}
