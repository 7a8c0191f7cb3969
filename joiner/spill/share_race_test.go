//go:build race

package spill_test

// share divides the number of random cases with the race detector, which makes each six times
// as slow and looks for something else: make test-random tries all of them without it.
const share = 24
