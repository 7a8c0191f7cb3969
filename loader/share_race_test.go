//go:build race

package loader_test

import "testing"

// share is how many times fewer random cases a test tries than without the race
// detector, which makes each six times as slow and looks for something else. make
// test-random tries all of them without it.
const share = 16

// withoutRace skips a test that starts no goroutine of its own, and whose cases cannot be
// fewer. make test-random runs it.
func withoutRace(t *testing.T) {
	t.Helper()
	t.Skip("it runs without the race detector: make test-random")
}
