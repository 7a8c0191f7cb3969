//go:build invariants

package invariant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/invariant"
)

func TestFailedAssertionsPanic(t *testing.T) {
	t.Parallel()
	require.True(t, invariant.On)
	require.NotPanics(t, func() { invariant.Check(true, "%d rows", 3) })
	require.PanicsWithValue(t, "invariant: 3 rows", func() { invariant.Check(false, "%d rows", 3) })
}
