package budget_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	o := budget.NewOnce[string](b, "a plan")
	first, err := o.Hold(t.Context(), "p", 60)
	require.NoError(t, err)
	again, err := o.Hold(t.Context(), "p", 60)
	require.NoError(t, err)
	require.Equal(t, int64(60), b.Used())
	_, err = o.Hold(t.Context(), "q", 50)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "a plan needs 50 bytes more")
	first()
	require.Equal(t, int64(60), b.Used())
	again()
	require.Zero(t, b.Used())
	anew, err := o.Hold(t.Context(), "p", 100)
	require.NoError(t, err)
	anew()
	free, err := budget.NewOnce[string](nil, "a plan").Hold(t.Context(), "p", 1<<60)
	require.NoError(t, err)
	free()
}

// TestOncePaysOnce: two that pay for the same at the same time.
func TestOncePaysOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(100)
		o := budget.NewOnce[string](b, "a plan")
		full := enter(t, b, 90)
		releases := make(chan func(), 2)
		for range 2 {
			s := enter(t, b, 0)
			defer s.end()
			go func() {
				release, err := o.Hold(s.ctx, "p", 30)
				if err != nil {
					t.Error(err)
					return
				}
				releases <- release
			}()
			synctest.Wait()
		}
		full.end()
		require.Len(t, releases, 2)
		require.Equal(t, int64(30), b.Used())
		(<-releases)()
		require.Equal(t, int64(30), b.Used())
		(<-releases)()
		require.Zero(t, b.Used())
	})
}

// TestOnceFromManySides: whoever comes and goes at once, what is held is paid for
// once, and nothing in the end.
func TestOnceFromManySides(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	o := budget.NewOnce[int](b, "a footer")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 500 {
				release, err := o.Hold(t.Context(), (i+k)%2, 10)
				if err != nil {
					t.Error(err)
					return
				}
				if used := b.Used(); used < 10 {
					t.Errorf("%d bytes are paid for what takes 10", used)
				}
				release()
			}
		})
	}
	all.Wait()
	require.Zero(t, b.Used())
}
