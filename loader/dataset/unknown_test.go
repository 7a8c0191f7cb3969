package dataset_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// TestUnknownDatasets checks that the error suggests the nearest name, or else lists the
// known names.
func TestUnknownDatasets(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 11 {
		many = append(many, fmt.Sprintf("d%02d", i))
	}
	for _, c := range []struct {
		name         string
		known        []string
		near, remedy string
	}{
		{"hom", []string{"other", "home"}, "home", `did you mean "home"?`},
		{"xyz", []string{"other", "home"}, "", "use one of: home, other"},
		{"features.q", []string{"other", "home"}, "", `{"dataset": {"training": {"table": "features.q"}}} (--query)`},
		{"xyz", nil, "", "the server has no datasets: add them under datasets"},
		{"xyz", many, "", "which include d00, d01"},
	} {
		e := dataset.Unknown(c.name, c.known)
		require.Equal(t, fault.NotFound, e.Kind)
		require.Equal(t, c.near, e.Faults[0].Nearest)
		require.Contains(t, e.Remedy, c.remedy)
	}
}
