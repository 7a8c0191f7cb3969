package scan_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/scan"
)

// TestReadsCountAsWaitsWhileRowsAreNeeded holds the reads of two row groups: of the first, while the consumer waits for its rows, and
// of the second, which is read ahead, while the consumer does something else, and then waits too.
//
// spec: status-4
func TestReadsCountAsWaitsWhileRowsAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f := r.grow(100, 50, 1)
		first, second := make(chan struct{}), make(chan struct{})
		r.store.Set(
			errstore.Rule{Location: f.Location, Nth: 2, Action: errstore.Hold(first)},  // after the footer
			errstore.Rule{Location: f.Location, Nth: 2, Action: errstore.Hold(second)}, // the rule before takes one
		)
		w := waits.New(time.Now)
		rdr, err := r.scanner(scan.Options{ReadTail: scan.NoTail}).Open(waits.With(t.Context(), w), r.source(), r.columns("id", "x"))
		require.NoError(t, err)
		defer rdr.Release()
		release := func(gate chan struct{}, after time.Duration) {
			time.Sleep(after)
			_, c, waiting := w.Now()
			require.True(t, waiting)
			require.Equal(t, waits.Storage, c)
			close(gate)
		}
		go release(first, 3*time.Second)
		require.True(t, rdr.Next(), "%v", rdr.Err())
		all, _, waiting := w.Now()
		require.False(t, waiting)
		require.Equal(t, 3*time.Second, all.Of(waits.Storage))
		time.Sleep(5 * time.Second) // a training step
		all, _, waiting = w.Now()
		require.False(t, waiting)
		require.Equal(t, 3*time.Second, all.Of(waits.Storage))
		go release(second, time.Second)
		require.True(t, rdr.Next(), "%v", rdr.Err())
		require.False(t, rdr.Next())
		require.NoError(t, rdr.Err())
		all, _, _ = w.Now()
		require.Equal(t, waits.Totals{waits.Storage: 4 * time.Second}, all)
	})
}
