//go:build race || share

package warehouse_test

// few is the number of cases in the short form of make test, and with the race detector, which
// makes writing them five times as slow. make test-random tries more.
const few = 20

// lineageRows is how many rows TestLineage reads, likewise.
const lineageRows = 6

// rare returns the properties that only many cases have.
var rare []string
