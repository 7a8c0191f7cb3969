package buildside

import (
	"testing"

	"github.com/penstock/penstock/internal/digest/digesttest"
)

func TestBuildSidesAreKnownByAllTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, groupOf{
		input: "9c12", division: parting{key: 1, of: 4}, files: []rowsOf{{"file:///a", 0, 3}, {"file:///b", 2, 9}},
	})
	digesttest.EveryFieldCounts(t, partOf{group: "9c12", part: 3})
}
