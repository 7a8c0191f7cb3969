package parquet_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

// hangs is a file whose reads hang until gate is closed. ctx ends when the first one hangs.
type hangs struct {
	ctx     context.Context
	content []byte
	object  store.Object
	file    *parquet.File
	gate    chan struct{}
}

// errReplaced is the error of every read that fails.
var errReplaced = errors.New("replaced")

// replacing decorates an object: it replaces each error of a read by another one.
type replacing struct{ store.Object }

func (r replacing) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	if r.Object.ReadAt(ctx, p, off) != nil {
		return errReplaced
	}
	return nil
}

func hanging(t *testing.T) hangs {
	t.Helper()
	content := write(t, parquettest.Options{Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 1000))
	m := storetest.NewMemory()
	m.Put(location, content)
	faulty := errstore.New(m)
	bounded, err := store.NewBounded(faulty, store.NewCalls(store.Options{})).Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	o := replacing{bounded}
	f, err := parquet.Open(t.Context(), o, parquet.Options{})
	require.NoError(t, err)
	asked, gate := make(chan struct{}), make(chan struct{})
	faulty.Set(errstore.Rule{Call: errstore.Read, Action: errstore.Hang(asked, gate)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	return hangs{ctx: ctx, content: content, object: o, file: f, gate: gate}
}

// watched is an allocator that reports when nothing is allocated anymore.
type watched struct {
	memory.Allocator
	live atomic.Int64
	none chan struct{}
}

func watch(under memory.Allocator) *watched {
	return &watched{Allocator: under, none: make(chan struct{}, 1)}
}

func (w *watched) Allocate(size int) []byte {
	w.live.Add(1)
	return w.Allocator.Allocate(size)
}

func (w *watched) Free(p []byte) {
	w.Allocator.Free(p)
	if w.live.Add(-1) == 0 {
		select {
		case w.none <- struct{}{}:
		default:
		}
	}
}

// TestAbandonedReadsKeepTheirMemory checks that a write by storage to a buffer of a released
// reader changes no other memory, and that the buffer is free afterwards. No error tells the
// reader that the read was abandoned.
func TestAbandonedReadsKeepTheirMemory(t *testing.T) {
	h := hanging(t)
	pool := &batch.Pool{}
	scratch := watch(pool)
	rdr, err := h.file.Read(h.ctx, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Scratch: scratch, Memory: allocator(t)})
	require.NoError(t, err)
	require.False(t, rdr.Next())
	require.ErrorIs(t, rdr.Err(), errReplaced)
	rdr.Release()
	require.NoError(t, h.object.Close())
	require.EqualValues(t, 1, scratch.live.Load(), "the read has its memory")

	stored := int(h.file.Stored(0, ids(4)))
	live, pattern := pool.Allocate(stored), bytes.Repeat([]byte{0xaa}, stored)
	copy(live, pattern)
	close(h.gate)
	<-scratch.none
	require.True(t, bytes.Equal(pattern, live), "an abandoned read wrote to memory that was in use")
	require.True(t, bytes.Contains(h.content, pool.Allocate(stored)), "the memory of the read was not freed when it returned")
}

// TestAbandonedReadsBeyondAChunk is the same for a read that the library makes itself.
func TestAbandonedReadsBeyondAChunk(t *testing.T) {
	h := hanging(t)
	pool := &batch.Pool{}
	scratch := watch(pool)
	const length = 1000
	err := parquet.ReadBeyond(h.ctx, h.file, scratch, length)
	require.ErrorIs(t, err, errReplaced)
	require.NoError(t, h.object.Close())
	require.EqualValues(t, 1, scratch.live.Load())
	live, pattern := pool.Allocate(length), bytes.Repeat([]byte{0xaa}, length)
	copy(live, pattern)
	close(h.gate)
	<-scratch.none
	require.True(t, bytes.Equal(pattern, live), "an abandoned read wrote to memory that was in use")
}
