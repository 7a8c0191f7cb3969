//go:build !race && !share

package exchange_test

// few is the number of PyIceberg's worlds in short runs.
const few = 100
