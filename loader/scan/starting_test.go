package scan_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/scan"
)

// TestStartingScansDecodeOneBatchAhead checks that a scan decodes one batch ahead while its stream has returned no row, and
// more of them afterwards; the rows are the same.
//
// spec: cursor-29
func TestStartingScansDecodeOneBatchAhead(t *testing.T) {
	r := newRig(t)
	r.grow(200, 200, 1)
	synctest.Test(t, func(t *testing.T) {
		s, err := scan.New(scan.Options{Files: catalogtest.FromStore(r.store), BatchRows: 10})
		require.NoError(t, err)
		var started atomic.Bool
		source := r.source()
		source.BatchRows, source.Starting = 1, func() bool { return !started.Load() }
		columns := r.columns("id", "tags")
		rdr, err := s.Open(t.Context(), source, columns)
		require.NoError(t, err)
		defer rdr.Release()
		var given []string
		next := func() bool {
			more := rdr.Next()
			if more {
				given = append(given, texts(rdr.RecordBatch())...)
			}
			synctest.Wait()
			return more
		}
		for batches := range int64(5) {
			require.True(t, next())
			require.Equal(t, (batches+2)*10, s.Decoded())
		}
		started.Store(true)
		require.True(t, next())
		require.Equal(t, int64(200), s.Decoded(), "all others are decoded ahead")
		for next() {
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, r.want(source, columns, nil), slices.Clip(given))
	})
}

// TestStartingScansDecodeSmallBatches checks that the batches of a scan have a quarter of the rows that its consumer takes
// at a time while its stream has returned no row, but not fewer than 4,096.
//
// spec: cursor-29
func TestStartingScansDecodeSmallBatches(t *testing.T) {
	r := newRig(t)
	r.grow(40_000, 40_000, 1)
	s := r.scanner(scan.Options{})
	first := func(consumed int, starting bool) int64 {
		source := r.source()
		source.BatchRows, source.Starting = consumed, func() bool { return starting }
		rdr, err := s.Open(t.Context(), source, r.columns("id"))
		require.NoError(t, err)
		defer rdr.Release()
		require.True(t, rdr.Next())
		return rdr.RecordBatch().NumRows()
	}
	require.Equal(t, int64(16_384), first(1000, false))
	require.Equal(t, int64(4096), first(1000, true))
	require.Equal(t, int64(32_000), first(32_000, false))
	require.Equal(t, int64(8000), first(32_000, true))
}
