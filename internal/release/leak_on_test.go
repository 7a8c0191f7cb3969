//go:build invariants

package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDroppedHandlesAreFound(t *testing.T) {
	t.Parallel()
	h := New(func() {})
	require.Regexp(t, `^github\.com/penstock/penstock/internal/release\.TestDroppedHandlesAreFound\n\t.*leak_on_test\.go:13\n`, h.leak.stack())
	require.PanicsWithValue(t, "invariant: a release.Handle was dropped and never released; it was made here:\n"+h.leak.stack(), h.leak.check)
	h.Release()
	require.NotPanics(t, h.leak.check)
}
