// Package backoff waits between the attempts of a call that others can get ahead of.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Wait waits before another attempt, given the number of attempts so far. The wait is random, so that programs that
// failed together do not try again together: up to first after one attempt, up to twice as long after each further
// one, and never longer than longest. It returns the cause of ctx if ctx ends before.
func Wait(ctx context.Context, attempts int, first, longest time.Duration) error {
	if attempts == 0 {
		return nil
	}
	limit := first
	for n := 1; n < attempts && limit < longest; n++ {
		limit *= 2
	}
	return Sleep(ctx, time.Duration(rand.Int64N(int64(min(limit, longest))))) //nolint:gosec // it spreads attempts
}

// Sleep waits for a time. It returns the cause of ctx if ctx ends before.
func Sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
