//go:build !race

package extsort_test

// What the tests do without the race detector.
const (
	tables  = 24
	bigRows = 150_000
)
