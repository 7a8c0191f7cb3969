//go:build race

package parquet_test

import "testing"

// share divides the number of random cases and of damaged bits under the race detector, which
// makes each several times as slow and looks for other faults. It is prime, so that every
// seventh case has other codecs, lengths and nulls. make test-random tries all of them.
const share = 7

// withoutRace skips a test that starts no goroutine of its own and whose cases cannot be
// smaller. make test-random runs it.
func withoutRace(t *testing.T) {
	t.Helper()
	t.Skip("it runs without the race detector: make test-random")
}
