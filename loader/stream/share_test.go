//go:build !race

package stream_test

import "testing"

// share is the factor by which random cases are reduced.
const share = 1

// withoutRace skips a test under the race detector.
func withoutRace(*testing.T) {}
