//go:build !race

package loader_test

// share is how many times fewer random cases a test tries.
const share = 1
