package fanout_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/waits"
)

// TestMembersWaitAsTheirReader has two streams of a group wait for a reader that waits for storage.
//
// spec: status-3
func TestMembersWaitAsTheirReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, 640, 1<<20, same)
		gate := make(chan struct{})
		k.set(func(ctx context.Context, _ string) error {
			defer waits.Begin(ctx, waits.Storage)()
			defer waits.Of(ctx).AwaitRows()()
			<-gate
			return nil
		})
		all := []*waits.Waits{waits.New(time.Now), waits.New(time.Now)}
		var running sync.WaitGroup
		for i, w := range all {
			s := k.open(waits.With(t.Context(), w), t, query(unchanged))
			running.Go(func() {
				defer s.Release()
				time.Sleep(time.Duration(i) * time.Second)
				_, err := rest(s)
				require.NoError(t, err)
			})
		}
		time.Sleep(3 * time.Second)
		for i, w := range all {
			waited, c, waiting := w.Now()
			require.True(t, waiting)
			require.Equal(t, waits.Storage, c)
			require.Equal(t, waits.Totals{waits.Storage: time.Duration(3-i) * time.Second}, waited)
		}
		close(gate)
		running.Wait()
		for i, w := range all {
			waited, _, waiting := w.Now()
			require.False(t, waiting)
			require.Equal(t, time.Duration(3-i)*time.Second, waited.Of(waits.Storage))
		}
	})
}
