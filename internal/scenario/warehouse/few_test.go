//go:build !race

package warehouse_test

// few is how many worlds the short form tries.
const few = 300

// rare is what only many worlds have.
var rare = []string{
	"refused, late", "refused, filter", "refused, which shows", "refused: tightened", "served: tightened",
}
