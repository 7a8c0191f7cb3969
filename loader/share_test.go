//go:build !race

package loader_test

import "testing"

// share is how many times fewer random cases a test tries.
const share = 1

// withoutRace skips a test under the race detector.
func withoutRace(*testing.T) {}
