//go:build !race

package parquet_test

import "testing"

// share divides the number of random cases and of damaged bits.
const share = 1

// withoutRace skips a test under the race detector.
func withoutRace(*testing.T) {}
