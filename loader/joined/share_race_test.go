//go:build race || share

package joined_test

// share is the factor by which random cases are reduced in make test, and under the race
// detector, which makes each case six times as slow. make test-random runs all of them.
const share = 16
