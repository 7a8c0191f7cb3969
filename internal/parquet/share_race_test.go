//go:build race || share

package parquet_test

import "testing"

// share divides the number of random cases and of damaged bits in make test, and under the race
// detector, which makes each several times as slow. It is prime, so that every
// seventh case has other codecs, lengths and nulls. make test-random tries all of them.
const share = 7

// onlyWhole skips a test that starts no goroutine of its own and whose cases cannot be
// smaller. make test-random runs it.
func onlyWhole(t *testing.T) {
	t.Helper()
	t.Skip("its cases cannot be divided: make test-random runs it")
}
