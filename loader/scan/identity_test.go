package scan

import (
	"testing"

	"github.com/penstock/penstock/internal/digest/digesttest"
)

func TestFooterKeyCountsEveryField(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, footerID{table: "9c12", location: "file:///a"})
}
