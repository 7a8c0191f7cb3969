//go:build race

package exchange_test

// few is the number of PyIceberg's worlds in short runs with the race detector, which is several
// times slower.
const few = 8
