//go:build !race

package exchange_test

// few is how many worlds of PyIceberg the short form reads.
const few = 100
