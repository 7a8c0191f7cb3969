package budget_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	o := budget.NewSharedReservation[string](b, "a plan")
	first, err := o.Hold(t.Context(), "p", 60)
	require.NoError(t, err)
	again, err := o.Hold(t.Context(), "p", 60)
	require.NoError(t, err)
	require.Equal(t, int64(60), b.Used())
	_, err = o.Hold(t.Context(), "q", 50)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "a plan needs 50 bytes more")
	first.Release()
	require.Equal(t, int64(60), b.Used())
	again.Release()
	require.Zero(t, b.Used())
	anew, err := o.Hold(t.Context(), "p", 100)
	require.NoError(t, err)
	anew.Release()
	free, err := budget.NewSharedReservation[string](nil, "a plan").Hold(t.Context(), "p", 1<<60)
	require.NoError(t, err)
	free.Release()
}

// TestOncePaysOnce: of two that need the same at the same time, one pays, and the
// other waits for that alone. Where the first cannot pay, the next one tries.
func TestOncePaysOnce(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, b *budget.Budget){
		"the first pays": func(t *testing.T, b *budget.Budget) {
			o, full := budget.NewSharedReservation[string](b, "a plan"), enter(t, b, 50)
			one, two := holding(t, b, o, 60), holding(t, b, o, 60)
			require.True(t, one.waits() && two.waits())
			full.held.Release()
			require.NoError(t, <-one.ended)
			require.NoError(t, <-two.ended)
			require.Equal(t, int64(60), b.Used())
			one.shared.Release()
			require.Equal(t, int64(60), b.Used())
			two.shared.Release()
			full.end()
			one.end()
			two.end()
		},
		"the first goes away": func(t *testing.T, b *budget.Budget) {
			o, full := budget.NewSharedReservation[string](b, "a plan"), enter(t, b, 50)
			one, two := holding(t, b, o, 60), holding(t, b, o, 60)
			one.cancel()
			require.ErrorIs(t, <-one.ended, context.Canceled)
			require.True(t, two.waits())
			full.held.Release()
			require.NoError(t, <-two.ended)
			two.shared.Release()
			full.end()
			one.end()
			two.end()
		},
		"the second goes away": func(t *testing.T, b *budget.Budget) {
			o, full := budget.NewSharedReservation[string](b, "a plan"), enter(t, b, 50)
			one, two := holding(t, b, o, 60), holding(t, b, o, 60)
			two.cancel()
			require.ErrorIs(t, <-two.ended, context.Canceled)
			full.held.Release()
			require.NoError(t, <-one.ended)
			one.shared.Release()
			full.end()
			one.end()
			two.end()
		},
	})
}

// holder is a stream that holds what a SharedReservation pays for.
type holder struct {
	*entered
	cancel context.CancelFunc
	shared *release.Handle
}

func holding(t *testing.T, b *budget.Budget, o *budget.SharedReservation[string], bytes int64) *holder {
	t.Helper()
	h := &holder{entered: enter(t, b, 0)}
	h.ctx, h.cancel = context.WithCancel(h.ctx)
	go func() {
		shared, err := o.Hold(h.ctx, "p", bytes)
		h.shared = shared
		h.ended <- err
	}()
	synctest.Wait()
	return h
}

// TestOnceFromManySides: with concurrent holders, memory is charged once, and not at all in the
// end.
func TestOnceFromManySides(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	o := budget.NewSharedReservation[int](b, "a footer")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 500 {
				held, err := o.Hold(t.Context(), (i+k)%2, 10)
				if err != nil {
					t.Error(err)
					return
				}
				if used := b.Used(); used < 10 {
					t.Errorf("%d bytes are paid for what takes 10", used)
				}
				held.Release()
			}
		})
	}
	all.Wait()
	require.Zero(t, b.Used())
}
