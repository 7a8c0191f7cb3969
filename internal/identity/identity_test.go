package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/identity"
)

// TestContextHasItsCaller: a context without a caller has no subject, and that of a call has
// the caller that was set last.
func TestContextHasItsCaller(t *testing.T) {
	t.Parallel()
	subject, known := identity.Of(t.Context())
	require.False(t, known)
	require.Empty(t, subject)
	require.Equal(t, identity.Caller{}, identity.CallerOf(t.Context()))

	alice := identity.Caller{Subject: "alice", Claims: map[string][]string{"groups": {"ranking"}}}
	outer := identity.With(t.Context(), identity.Caller{Subject: "bob"})
	ctx := identity.With(outer, alice)
	subject, known = identity.Of(ctx)
	require.True(t, known)
	require.Equal(t, "alice", subject)
	require.Equal(t, alice, identity.CallerOf(ctx))
	subject, _ = identity.Of(outer)
	require.Equal(t, "bob", subject)
}
