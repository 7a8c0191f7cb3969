//go:build race

package stream_test

import "testing"

// share is the factor by which random cases are reduced under the race detector, which
// makes each case six times as slow and looks for other faults. make test-random runs
// all of them without the detector.
const share = 16

// withoutRace skips a test that starts no goroutine of its own and whose cases cannot
// be reduced. make test-random runs it.
func withoutRace(t *testing.T) {
	t.Helper()
	t.Skip("it runs without the race detector: make test-random")
}
