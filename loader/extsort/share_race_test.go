//go:build race

package extsort_test

// What the tests do with the race detector.
const (
	tables  = 6
	bigRows = 20_000
)
