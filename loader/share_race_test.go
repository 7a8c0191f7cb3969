//go:build race || share

package loader_test

import "testing"

// share is the factor by which random cases are reduced in make test, and under the race
// detector, which makes each case six times as slow. make test-random runs all of them.
const share = 16

// onlyWhole skips a test that starts no goroutine of its own and whose cases cannot
// be reduced. make test-random runs it.
func onlyWhole(t *testing.T) {
	t.Helper()
	t.Skip("its cases cannot be divided: make test-random runs it")
}
