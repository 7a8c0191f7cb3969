package budget_test

import (
	"sync"
	"testing"
	"testing/synctest"

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
