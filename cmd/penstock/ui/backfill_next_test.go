package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each branch that cannot be published has a next step; the pages offer those of the others.
func TestNextStepsOfBranches(t *testing.T) {
	for _, b := range []*branchState{{Behind: 1}, {Unknown: true}} {
		require.False(t, b.Publishable())
		require.Contains(t, b.next(), "tage the rows again to a new branch, which begins at main")
	}
	for _, b := range []*branchState{{}, {Published: true}, {Published: true, Behind: 2}} {
		require.Empty(t, b.next())
	}
}
