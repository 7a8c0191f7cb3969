package bucket_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
)

func TestOverlapAgainstBruteForce(t *testing.T) {
	const keys = 20_000
	for n := 1; n <= 24; n++ {
		for m := 1; m <= 24; m++ {
			seen := make([]bool, n*m)
			for key := range int64(keys) {
				h := bucket.HashInt64(key)
				seen[buckettest.Of(h, n)*m+buckettest.Of(h, m)] = true
			}
			g := bucket.Overlap(n, m)
			for b := range n {
				for c := range m {
					require.Equal(t, seen[b*m+c], b%g == c%g, "bucket %d of %d and %d of %d", b, n, c, m)
				}
			}
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, tc := range []struct{ n, m, want int }{
		{1, 1, 1}, {8, 16, 8}, {16, 8, 8}, {12, 16, 4}, {7, 16, 1}, {24, 36, 12}, {1, 64, 1},
	} {
		require.Equal(t, tc.want, bucket.Overlap(tc.n, tc.m), "%d and %d", tc.n, tc.m)
	}
}

func TestFactors(t *testing.T) {
	for n, want := range map[int][]int{
		1: nil, 2: {2}, 12: {2, 2, 3}, 16: {2, 2, 2, 2}, 97: {97}, 360: {2, 2, 2, 3, 3, 5},
	} {
		require.Equal(t, want, bucket.Factors(n), "of %d", n)
	}
}

func digitReversed(n int) []int {
	order := make([]int, n)
	for b := range order {
		order[b] = b
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(bucket.Digits(a, n), bucket.Digits(b, n)) })
	return order
}

func TestDigitReversedOrder(t *testing.T) {
	require.Equal(t, []int{0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15}, digitReversed(16))
	require.Equal(t, []int{0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11}, digitReversed(12))
	require.Equal(t, []int{0}, digitReversed(1))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6}, digitReversed(7))
}

// TestResidueClassesAreContiguous: for every product of leading factors, so that
// a plan reads the staging rows of a class once.
func TestResidueClassesAreContiguous(t *testing.T) {
	for n := 1; n <= 64; n++ {
		g := 1
		for _, p := range append([]int{1}, bucket.Factors(n)...) {
			g *= p
			runs, last := 0, -1
			for _, b := range digitReversed(n) {
				if b%g != last {
					runs, last = runs+1, b%g
				}
			}
			require.Equal(t, g, runs, "classes mod %d of %d buckets", g, n)
		}
	}
}
