package release

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseRunsOnce(t *testing.T) {
	t.Parallel()
	calls := 0
	h := New(func() { calls++ })
	h.Release()
	h.Release()
	require.Equal(t, 1, calls)
}

// A release that ends up in its own Release again does not deadlock.
func TestReleaseMayBeReentered(t *testing.T) {
	t.Parallel()
	calls := 0
	var h *Handle
	h = New(func() { calls++; h.Release() })
	h.Release()
	require.Equal(t, 1, calls)
}

func TestNilReleasesNothing(t *testing.T) {
	t.Parallel()
	var h *Handle
	require.NotPanics(t, h.Release)
	require.Nil(t, All())
	require.Nil(t, All(nil, nil))
}

func TestAllReleasesInReverse(t *testing.T) {
	t.Parallel()
	var order []int
	one := New(func() { order = append(order, 1) })
	two := New(func() { order = append(order, 2) })
	both := All(one, nil, two)
	both.Release()
	both.Release()
	one.Release()
	require.Equal(t, []int{2, 1}, order)
	require.Same(t, one, All(nil, one))
}
