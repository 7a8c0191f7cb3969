//go:build !race

package warehouse_test

// few is how many worlds the short form tries.
const few = 300

// rare is what only many worlds have.
var rare = []string{
	"refused: order", "refused: tightened", "served: tightened", "refused: promoted, late", "refused: promoted, filter", "refused: renamed, filter",
}
