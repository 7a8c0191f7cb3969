package parquet_test

import (
	"bytes"
	"context"
	"testing"

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

func hanging(t *testing.T) hangs {
	t.Helper()
	content := write(t, parquettest.Options{Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 1000))
	m := storetest.NewMemory()
	m.Put(location, content)
	faulty := errstore.New(m)
	o, err := store.NewBounded(faulty, store.NewCalls(store.Options{})).Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
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

// TestReadsLeftBehindKeepTheirMemory checks that a write by storage to a buffer of a released
// reader changes no other memory, and that the buffer is reused afterwards.
func TestReadsLeftBehindKeepTheirMemory(t *testing.T) {
	h := hanging(t)
	scratch := &batch.Pool{}
	rdr, err := h.file.Read(h.ctx, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Scratch: scratch, Memory: allocator(t)})
	require.NoError(t, err)
	require.False(t, rdr.Next())
	err = rdr.Err()
	require.ErrorIs(t, err, context.Canceled)
	rdr.Release()
	require.NoError(t, h.object.Close())

	stored := int(h.file.Stored(0, ids(4)))
	live, pattern := scratch.Allocate(stored), bytes.Repeat([]byte{0xaa}, stored)
	copy(live, pattern)
	returned := make(chan struct{})
	store.WhenReturned(err, func() { close(returned) })
	close(h.gate)
	<-returned
	require.True(t, bytes.Equal(pattern, live), "a read that was left behind wrote to memory that was in use")
	require.True(t, bytes.Contains(h.content, scratch.Allocate(stored)), "the memory of the read was not freed when it returned")
}

// TestReadsLeftBehindBeyondAChunk is the same for a read that the library makes itself.
func TestReadsLeftBehindBeyondAChunk(t *testing.T) {
	h := hanging(t)
	scratch := &batch.Pool{}
	const length = 1000
	err := parquet.ReadBeyond(h.ctx, h.file, scratch, length)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, h.object.Close())
	live, pattern := scratch.Allocate(length), bytes.Repeat([]byte{0xaa}, length)
	copy(live, pattern)
	returned := make(chan struct{})
	store.WhenReturned(err, func() { close(returned) })
	close(h.gate)
	<-returned
	require.True(t, bytes.Equal(pattern, live), "a read that was left behind wrote to memory that was in use")
}
