//go:build !race && !share

package fanout_test

// share is the factor by which random cases are reduced.
const share = 1
