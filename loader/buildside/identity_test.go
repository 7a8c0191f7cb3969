package buildside

import (
	"testing"

	"github.com/penstock/penstock/internal/digest/digesttest"
)

func TestBuildSideIdentityCountsEveryField(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, groupID{
		input: "9c12", partitioning: partitioningID{key: 1, of: 4}, unkept: true, files: []fileID{{"file:///a", 0, 3}, {"file:///b", 2, 9}},
	})
	digesttest.EveryFieldCounts(t, partitionID{group: "9c12", number: 3})
}
