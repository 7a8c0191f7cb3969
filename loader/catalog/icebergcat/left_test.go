package icebergcat_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// TestHangingCatalogFileEndsWithTheContext checks that opening the catalog and loading a
// table end with their context if the disk of the catalog's file does not respond.
func TestHangingCatalogFileEndsWithTheContext(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	o := w.Options()
	o.Calls = store.NewCalls(store.Options{Timeout: time.Hour})
	reader, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	_, err = reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)

	gate := make(chan struct{})
	defer close(gate)
	const places = 32 // of a mount in package store
	for range places {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := store.Call(ctx, o.Calls, "read", w.Dir+"/catalog.db", func(context.Context) (int, error) {
			cancel()
			<-gate
			return 0, nil
		})
		require.ErrorIs(t, err, context.Canceled, "it has a place")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = reader.Table(ctx, icebergtest.Events, dataset.Ref{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = icebergcat.Open(ctx, o)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// left is how many calls are abandoned.
func left(c *store.Calls) int {
	n := 0
	for _, of := range c.Abandoned() {
		n += of
	}
	return n
}

// TestAbandonedCallsDoNotTouchTheirCallers is for the race detector: calls that their
// callers abandoned use none of the callers' memory.
func TestAbandonedCallsDoNotTouchTheirCallers(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	o := w.Options()
	o.Calls = store.NewCalls(store.Options{Timeout: time.Hour})
	reader, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		if _, err := reader.Table(ctx, icebergtest.Events, dataset.Ref{}); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
	}
	require.Eventually(t, func() bool { return left(o.Calls) == 0 }, time.Minute, time.Millisecond, "SQLite has files beside the catalog's until then")
}
