package scan_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/scan"
)

// TestAbandonedReadsStayCharged checks that a reader ends with its context, or at its
// storage timeout, while a read hangs, and that only the read's memory stays charged until
// the read returns.
func TestAbandonedReadsStayCharged(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		cancel  bool
	}{"context": {time.Hour, true}, "timeout": {time.Minute, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				f := r.grow(100, 50, 1)
				stored := int64(0)
				plain := budget.New(1 << 30)
				rdr, err := r.scanner(scan.Options{Budget: plain, Ahead: scan.NoAhead, ReadTail: scan.NoTail}).Open(t.Context(), r.source(), r.columns("id", "x"))
				require.NoError(t, err)
				for rdr.Next() {
					stored = max(stored, plain.Peak())
				}
				rdr.Release()
				require.Zero(t, plain.Used())

				gate, limit := make(chan struct{}), budget.New(1<<30)
				r.store.Reset()
				r.store.Set(errstore.Rule{Location: f.Location, Nth: 2, Action: errstore.Hang(nil, gate)}) // after the footer
				files := store.NewBounded(r.store, store.NewCalls(store.Options{Timeout: c.timeout}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel {
					go func() {
						synctest.Wait()
						cancel()
					}()
				}
				rdr, err = r.scanner(scan.Options{Files: catalogtest.FromStore(files), Budget: limit, Ahead: scan.NoAhead, ReadTail: scan.NoTail}).Open(ctx, r.source(), r.columns("id", "x"))
				require.NoError(t, err)
				require.False(t, rdr.Next())
				if c.cancel {
					require.ErrorIs(t, rdr.Err(), context.Canceled)
				} else {
					require.Equal(t, fault.Unavailable, fault.KindOf(rdr.Err()), "%v", rdr.Err())
					require.ErrorContains(t, rdr.Err(), "storage did not read file "+f.Location+" within 1m0s")
				}
				rdr.Release()
				requests := r.store.Requests()
				require.Len(t, requests, 2)
				require.GreaterOrEqual(t, limit.Used(), int64(requests[1].Bytes))
				require.LessOrEqual(t, limit.Used(), stored)
				require.Equal(t, 1, r.store.Counts().Open, "the file is closed under its read")
				close(gate)
				synctest.Wait()
				require.Zero(t, limit.Used())
				require.Zero(t, r.store.Counts().Open)
			})
		})
	}
}
