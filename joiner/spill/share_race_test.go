//go:build race || share

package spill_test

// share divides the number of random cases in make test, and with the race detector, which makes
// each six times as slow. make test-random tries all of them.
const share = 24
