//go:build race || share

package extsort_test

// What the tests do in make test, and with the race detector.
const (
	tables  = 6
	bigRows = 20_000
)
