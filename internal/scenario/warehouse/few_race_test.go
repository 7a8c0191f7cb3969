//go:build race

package warehouse_test

// few is the number of cases in the short form: the race detector makes writing them
// five times as slow, and finds other bugs.
const few = 20

// lineageRows is how many rows TestLineage reads, likewise.
const lineageRows = 6

// rare returns the properties that only many cases have.
var rare []string
