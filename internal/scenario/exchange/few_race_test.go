//go:build race

package exchange_test

// few is how many worlds of PyIceberg the short form reads: the race detector
// makes that several times as slow, and looks for something else.
const few = 8
