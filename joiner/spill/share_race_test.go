//go:build race

package spill_test

// share is how many times fewer random cases a test tries than without the race
// detector, which makes each six times as slow and looks for something else. make
// test-random tries all of them without it.
const share = 24
