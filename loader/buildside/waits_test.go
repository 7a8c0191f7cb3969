package buildside

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
)

// TestPrefetchesCountOnceTheirStreamWaits has a stream prefetch a build side that it reads itself, or that another stream is
// building. Either takes three seconds; the stream works for the first of them, and waits for the other two.
//
// spec: status-3, status-4
func TestPrefetchesCountOnceTheirStreamWaits(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]waits.Totals{
		"its own build":    {waits.Storage: 2 * time.Second},
		"another stream's": {waits.Stream: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(1 << 20)
				pool, p := New(Options{Options: joiner.Options{Budget: b}}), planOf(10)
				slow := func(ctx context.Context) error {
					defer waits.Begin(ctx, waits.Storage)()
					defer waits.Of(ctx).AwaitRows()()
					time.Sleep(3 * time.Second)
					return nil
				}
				open := func() (context.Context, *Reference, *waits.Waits) {
					w := waits.New(time.Now)
					ctx, entered := b.Enter(waits.With(t.Context(), w), "")
					t.Cleanup(entered.Release)
					groups := groupsOf(t, pool, p, slow)
					t.Cleanup(groups.Close)
					r := groups.Reference(plan.Range{})
					t.Cleanup(r.Release)
					return ctx, r, w
				}
				cause := waits.Storage
				if want.Of(waits.Stream) > 0 {
					cause = waits.Stream
					ctx, r, _ := open()
					r.Prefetch(ctx)
					synctest.Wait()
				}
				ctx, r, w := open()
				r.Prefetch(ctx)
				time.Sleep(time.Second)
				all, _, waiting := w.Now()
				require.False(t, waiting, "it works")
				require.Zero(t, all)
				go func() {
					time.Sleep(time.Second)
					all, c, waiting := w.Now()
					if !waiting || c != cause || all.Of(cause) != time.Second {
						t.Errorf("after a second, it waits for %s (%v): %v", c, waiting, all)
					}
				}()
				made, err := r.Probeable(ctx)
				require.NoError(t, err)
				made.Release()
				all, _, waiting = w.Now()
				require.False(t, waiting)
				require.Equal(t, want, all)
			})
		})
	}
}
