//go:build !race

package spill_test

// share is how many times fewer random cases a test tries.
const share = 1
