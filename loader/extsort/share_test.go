//go:build !race && !share

package extsort_test

// What the tests do in make test-random.
const (
	tables  = 24
	bigRows = 150_000
)
