//go:build race

package warehouse_test

// few is how many worlds the short form tries: the race detector makes writing
// them five times as slow, and looks for something else.
const few = 40

// rare is what only many worlds have.
var rare []string
