package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/backoff"
)

func TestWaitsDoubleUpToTheLongest(t *testing.T) {
	const first, longest = time.Second, 5 * time.Second
	for attempts, limit := range []time.Duration{0, first, 2 * first, 4 * first, longest, longest} {
		synctest.Test(t, func(t *testing.T) {
			total := time.Duration(0)
			for range 200 {
				begun := time.Now()
				require.NoError(t, backoff.Wait(t.Context(), attempts, first, longest))
				require.LessOrEqual(t, time.Since(begun), limit)
				total = max(total, time.Since(begun))
			}
			require.GreaterOrEqual(t, total, limit/2, "the wait after %d attempts never comes near %s", attempts, limit)
		})
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the client is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		begun := time.Now()
		require.ErrorIs(t, backoff.Wait(ctx, 1, time.Hour, time.Hour), gone)
		require.Zero(t, time.Since(begun))
	})
}
