//go:build !race && !share

package spill_test

// share divides the number of random cases.
const share = 1
