package extsort_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/extsort"
)

// failing is a store that calls a function before each call, which may return an error.
type failing struct {
	extsort.RunStore
	before func() error
}

func (f failing) Append(b arrow.RecordBatch) (int, error) {
	if err := f.before(); err != nil {
		return 0, err
	}
	return f.RunStore.Append(b)
}

func (f failing) Read(number int) (arrow.RecordBatch, error) {
	if err := f.before(); err != nil {
		return nil, err
	}
	return f.RunStore.Read(number)
}

// readAll sorts a table and reads all of its rows.
func readAll(ctx context.Context, tab *table, o extsort.Options) (rows int64, err error) {
	s, err := extsort.New(tab.schema, tab.layout, o)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	if err := add(ctx, s, tab.batches(rand.New(rand.NewPCG(1, 1)), 400)); err != nil {
		return 0, err
	}
	got, err := s.Finish(ctx)
	if err != nil {
		return 0, err
	}
	defer got.Release()
	for i := range got.Partitions() {
		r, err := got.Open(ctx, i)
		if err != nil {
			return rows, err
		}
		for r.Next() {
			rows += r.RecordBatch().NumRows()
		}
		err = r.Err()
		r.Release()
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// TestEveryCallOfTheDiskMayFail fails calls of the disk, or cancels during them: the sort fails with that error, never
// returns fewer rows, and leaves nothing behind.
//
// spec: stage-1, stage-12
func TestEveryCallOfTheDiskMayFail(t *testing.T) {
	t.Parallel()
	tab := newTable(rand.New(rand.NewPCG(3, 9)), 1500)
	total := int64(0)
	try := func(ctx context.Context, at int64, act func() error) (int64, error) {
		p := newPlace(t, 1<<20, 0)
		defer p.requireEmpty(t)
		o := p.opts
		calls := atomic.Int64{}
		o.WorkingMemory, o.Threads = 150_000, 2
		o.Disk = func(what string) (extsort.RunStore, error) {
			f, err := p.spool.Create(what)
			return failing{f, func() error {
				if calls.Add(1) == at {
					return act()
				}
				return nil
			}}, err
		}
		rows, err := readAll(ctx, tab, o)
		total = calls.Load()
		return rows, err
	}
	rows, err := try(t.Context(), 0, nil)
	require.NoError(t, err)
	require.Equal(t, int64(len(tab.rows)), rows)
	calls := total
	require.Greater(t, calls, int64(50))
	for at := int64(1); at <= calls; at += 1 + calls/40 {
		_, err := try(t.Context(), at, func() error { return fault.New(fault.Unavailable, "the disk is gone") })
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "call %d: %v", at, err)
		ctx, cancel := context.WithCancel(t.Context())
		rows, err = try(ctx, at, func() error { cancel(); return nil })
		if err == nil { // the last call of the disk
			require.Equal(t, int64(len(tab.rows)), rows)
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
	}
}
