package budget_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
)

// idler holds idle memory.
type idler struct {
	budget *budget.Budget
	mu     sync.Mutex
	idle   []*budget.Reservation
}

func newIdler(b *budget.Budget) *idler {
	i := &idler{budget: b}
	b.OnLack(i.giveUp)
	return i
}

// keep makes memory idle.
func (i *idler) keep(r *budget.Reservation) {
	i.mu.Lock()
	i.idle = append(i.idle, r)
	i.mu.Unlock()
	i.budget.AddIdle(r.Held())
}

func (i *idler) giveUp(n int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for ; n > 0 && len(i.idle) > 0; i.idle = i.idle[1:] {
		bytes := i.idle[0].Held()
		n -= bytes
		i.idle[0].Release()
		i.budget.AddIdle(-bytes)
	}
}

// TestIdleMemoryCountsAsFree: where memory is kept while it is plentiful, and to waiters.
func TestIdleMemoryCountsAsFree(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	i := newIdler(b)
	for range 9 {
		r, err := b.Reserve("rows", 10)
		require.NoError(t, err)
		i.keep(r)
	}
	require.True(t, b.Plentiful())
	require.EqualValues(t, 90, b.Idle())
	require.Zero(t, b.InUse())
	all, err := b.Reserve("rows", 85)
	require.NoError(t, err)
	require.False(t, b.Pressed())
	require.EqualValues(t, 95, b.Used())
	require.False(t, b.Plentiful())
	all.Release()
}

// TestIdleMemoryGoesToWaiters: memory that becomes idle while a stream waits is given up, and no
// stream fails while it is.
func TestIdleMemoryGoesToWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		i := newIdler(b)
		one, two := enter(t, b, 60), enter(t, b, 40)
		two.want(50)
		require.True(t, two.waits())
		i.keep(one.held)
		require.False(t, two.waits())
		require.NoError(t, <-two.ended)
		require.EqualValues(t, 90, b.Used())
		require.Zero(t, b.Idle())
		one.stream.Release()
		two.end()
		require.Zero(t, b.Used())
	})
}

// TestIdleMemoryGoesBeyondShares: a stream that waits for its host's share may exceed it once all streams of the
// host wait. Idle memory is then given up for it, whichever stream was the last to wait.
func TestIdleMemoryGoesBeyondShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		b.SetPeerShare(50)
		i := newIdler(b)
		one, leave := b.Enter(t.Context(), "x")
		defer leave.Release()
		two, leave := b.Enter(t.Context(), "x")
		defer leave.Release()
		_, leave = b.Enter(t.Context(), "y")
		defer leave.Release()
		kept, err := b.Reserve("kept", 40)
		require.NoError(t, err)
		i.keep(kept)
		held, err := b.ReserveFor(one, "rows", 50)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- held.GrowWait(one, 10) }()
		synctest.Wait()
		other, err := b.Reserve("rows of another host", 5)
		require.NoError(t, err)
		began := time.Now()
		blocked := budget.MarkBlocked(two)
		require.NoError(t, <-ended)
		require.Zero(t, time.Since(began))
		blocked.Release()
		other.Release()
		held.Release()
		require.Zero(t, b.Used())
	})
}
