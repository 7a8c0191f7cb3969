//go:build !race && !share

package joined_test

// share is the factor by which random cases are reduced.
const share = 1
