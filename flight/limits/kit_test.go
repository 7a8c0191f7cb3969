package limits_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/flight/limits"
)

// claimed is a claim that has entered a queue.
type claimed struct {
	*limits.Claim
	cancel context.CancelFunc
	done   chan struct{}
}

// claim lets a call enter, and waits until it has its place, waits or was refused.
func claim(t *testing.T, q *limits.Queue, of *call) *claimed {
	ctx, cancel := context.WithCancel(t.Context())
	c := &claimed{&limits.Claim{Client: of.client, Bytes: of.bytes, Firm: of.firm}, cancel, make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = q.Enter(ctx, c.Claim, time.Hour, func() (time.Duration, error) { return 0, errors.New("late") })
	}()
	synctest.Wait()
	return c
}

// ended reports whether the call has had its place, or was refused, or gave up.
func (c *claimed) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *claimed) has(q *limits.Queue) bool {
	has := false
	q.Change(func() { has = c.Has() })
	return has
}
