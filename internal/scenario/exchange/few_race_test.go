//go:build race || share

package exchange_test

// few is the number of PyIceberg's worlds in short runs of make test, and with the race detector,
// which is several times slower. make test-random tries more.
const few = 8
