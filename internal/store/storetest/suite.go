package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// Fixture is a store under test.
type Fixture struct {
	Store store.Store
	// Put writes a file with the given name and returns its location.
	Put func(t *testing.T, name string, content []byte) string
	// Absent returns the location that a file with the given name would have. There is no such
	// file.
	Absent func(t *testing.T, name string) string
	// Hang has the kinds of call that can hang below the store, by name: "open", the call that
	// follows it when a file is opened, and "read". Each function makes the next call of its kind
	// hang, even if the call's context ends: the call sends to asked when it begins, and continues
	// after release was called. Hang is empty if no call can hang.
	Hang map[string]func() (asked <-chan struct{}, release func())
}

// Run checks that a store follows the contract of package store. Every implementation
// calls it in a test of its own.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	for call := range open(t).Hang {
		t.Run("hanging "+call, func(t *testing.T) { hanging(t, open(t), call) })
	}
	for name, test := range map[string]func(*testing.T, Fixture){
		"ranges":     ranges,
		"outside":    outside,
		"sizes":      sizes,
		"missing":    missing,
		"empty":      empty,
		"cancelled":  cancelled,
		"concurrent": concurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func sample(n int) []byte {
	const period = 65_537 // a prime number, so that no two parts of an upload have the same content
	block := make([]byte, min(n, period))
	for i := range block {
		block[i] = byte(i*7 + i/251)
	}
	if n <= period {
		return block
	}
	return bytes.Repeat(block, n/period+1)[:n]
}

func mustOpen(t *testing.T, f Fixture, location string, size int64) store.Object {
	t.Helper()
	o, err := f.Store.Open(t.Context(), location, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	return o
}

func ranges(t *testing.T, f Fixture) {
	content := sample(100_000)
	location := f.Put(t, "a file, 100%25 odd?#.parquet", content)
	o := mustOpen(t, f, location, int64(len(content)))
	require.Equal(t, int64(len(content)), o.Size())
	require.Equal(t, location, o.Location())
	for _, r := range [][2]int{{0, 1}, {0, 100_000}, {99_999, 1}, {50_000, 0}, {100_000, 0}, {17, 70_001}} {
		p := make([]byte, r[1])
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(p), int64(r[0])))
		require.True(t, bytes.Equal(content[r[0]:r[0]+r[1]], p), "range %v", r)
	}
}

func outside(t *testing.T, f Fixture) {
	location := f.Put(t, "short.parquet", sample(10))
	o := mustOpen(t, f, location, store.SizeUnknown)
	for _, r := range []struct {
		off int64
		n   int
	}{{-1, 1}, {0, 11}, {9, 2}, {10, 1}, {11, 0}, {math.MaxInt64, 1}, {math.MinInt64, 1}} {
		requireKind(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, r.n)), r.off), fault.Corrupt, location)
	}
}

func sizes(t *testing.T, f Fixture) {
	location := f.Put(t, "sized.parquet", sample(10))
	for _, size := range []int64{0, 9, 11} {
		o, err := f.Store.Open(t.Context(), location, size)
		if err == nil { // a store may notice only when it reads
			err = errors.Join(o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0), o.Close())
		}
		requireKind(t, err, fault.Corrupt, location)
	}
	require.Equal(t, int64(10), mustOpen(t, f, location, store.SizeUnknown).Size())
}

func missing(t *testing.T, f Fixture) {
	location := f.Absent(t, "nowhere.parquet")
	for _, size := range []int64{10, store.SizeUnknown} {
		o, err := f.Store.Open(t.Context(), location, size)
		if err == nil { // a store may notice only when it reads
			err = errors.Join(o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0), o.Close())
		}
		requireKind(t, err, fault.Corrupt, location)
		require.ErrorContains(t, err, "missing")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func empty(t *testing.T, f Fixture) {
	location := f.Put(t, "empty.parquet", nil)
	o := mustOpen(t, f, location, 0)
	require.Zero(t, o.Size())
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(nil), 0))
	requireKind(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0), fault.Corrupt, location)
}

func cancelled(t *testing.T, f Fixture) {
	location := f.Put(t, "cancelled.parquet", sample(10))
	o := mustOpen(t, f, location, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, o.ReadAt(ctx, memory.NewBufferBytes(make([]byte, 1)), 0), context.Canceled)
	_, err := f.Store.Open(ctx, location, 10)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 1)), 0), "one caller's context must not spoil the object")
}

// hanging checks that a call of the store ends when its context ends, although the call below it
// still hangs. It also checks that no other call waits for it, and that the buffer of a read is
// freed once the call below has returned.
func hanging(t *testing.T, f Fixture, call string) {
	content := sample(10)
	location := f.Put(t, "hanging.parquet", content)
	other := mustOpen(t, f, f.Put(t, "answering.parquet", content), 10)
	var o store.Object
	if call == "read" {
		var err error
		o, err = f.Store.Open(t.Context(), location, 10)
		require.NoError(t, err)
	}
	asked, release := f.Hang[call]()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed, p := make(chan error, 1), make([]byte, 10)
	buffer, freed := NewBuffer(p)
	go func() {
		if o != nil {
			failed <- o.ReadAt(ctx, buffer, 0)
			return
		}
		_, err := f.Store.Open(ctx, location, 10)
		failed <- err
	}()
	<-asked
	require.NoError(t, other.ReadAt(t.Context(), memory.NewBufferBytes(make([]byte, 10)), 0))
	mine := errors.New("mine")
	cancel(mine)
	err := <-failed
	require.ErrorIs(t, err, mine)
	buffer.Release()
	if o == nil {
		release()
		return
	}
	require.NoError(t, o.Close())
	select {
	case <-freed:
		require.Fail(t, "the buffer was freed before the call returned")
	default:
	}
	release()
	<-freed
	require.NoError(t, mustOpen(t, f, location, 10).ReadAt(t.Context(), memory.NewBufferBytes(p), 0))
	require.Equal(t, content, p)
}

func concurrent(t *testing.T, f Fixture) {
	content := sample(64 << 10)
	o := mustOpen(t, f, f.Put(t, "concurrent.parquet", content), int64(len(content)))
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			p := make([]byte, 100)
			for off := i; off+len(p) <= len(content); off += 997 {
				if err := o.ReadAt(t.Context(), memory.NewBufferBytes(p), int64(off)); err != nil {
					return err
				}
				if !bytes.Equal(p, content[off:off+len(p)]) {
					return fmt.Errorf("wrong bytes at %d", off)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

func requireKind(t *testing.T, err error, kind fault.Kind, location string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
	require.ErrorContains(t, err, location)
	require.Equal(t, location, fault.As(err).File)
}
