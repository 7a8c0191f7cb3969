//go:build !invariants

package invariant_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/invariant"
)

func TestAssertionsAreCompiledOut(t *testing.T) {
	t.Parallel()
	require.False(t, invariant.On)
	require.NotPanics(t, func() { invariant.Check(false, "%d rows", 3) })
}
