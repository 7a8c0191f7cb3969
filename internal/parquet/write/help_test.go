package write_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/internal/store/storetest"
)

// memoryFile is a file in memory. It overwrites what was passed to Write, as a destination may.
type memoryFile struct{ bytes.Buffer }

func (m *memoryFile) Write(_ context.Context, p []byte) error {
	_, err := m.Buffer.Write(p)
	return err
}

// broken is a destination that fails after some bytes.
type broken struct{ left int }

var errBroken = errors.New("no room")

func (b *broken) Write(_ context.Context, p []byte) error {
	if b.left -= len(p); b.left < 0 {
		return errBroken
	}
	return nil
}

// writeFile writes batches to a file in memory.
func writeFile(t testing.TB, opts write.Options, batches ...arrow.RecordBatch) ([]byte, write.WrittenFile) {
	t.Helper()
	var to memoryFile
	w, err := write.New(t.Context(), &to, opts)
	require.NoError(t, err)
	defer w.Release()
	for _, b := range batches {
		require.NoError(t, w.Write(t.Context(), b))
	}
	out, err := w.Close(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(to.Len()), out.Bytes)
	return to.Bytes(), out
}

// refused returns the error of writing batches.
func refused(t testing.TB, opts write.Options, batches ...arrow.RecordBatch) *fault.Error {
	t.Helper()
	w, err := write.New(t.Context(), &memoryFile{}, opts)
	if err == nil {
		defer w.Release()
		for _, b := range batches {
			if err = w.Write(t.Context(), b); err != nil {
				break
			}
		}
		if err == nil {
			_, err = w.Close(t.Context())
		}
	}
	require.Error(t, err)
	return fault.As(err)
}

// openFile opens a file in memory with this project's reader.
func openFile(t testing.TB, content []byte) *parquet.File {
	t.Helper()
	const location = "file:///t/a.parquet"
	m := storetest.NewMemory()
	m.Put(location, content)
	o, err := m.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	f, err := parquet.Open(t.Context(), o, parquet.Options{})
	require.NoError(t, err)
	return f
}

// requireRows reads a file with this project's reader and compares its rows with the batches. All pages
// must have checksums.
func requireRows(t testing.TB, content []byte, sc *arrow.Schema, want ...arrow.RecordBatch) {
	t.Helper()
	f := openFile(t, content)
	require.True(t, f.HasFieldIDs())
	opts := parquet.ReadOptions{Schema: sc, RequireChecksums: true}
	for i, f := range f.Fields() {
		require.Equal(t, sc.Field(i).Name, f.Name)
		opts.Fields = append(opts.Fields, f.ID)
	}
	rdr, err := f.Read(t.Context(), opts)
	require.NoError(t, err)
	defer rdr.Release()
	var got []arrow.RecordBatch
	for rdr.Next() {
		b := rdr.RecordBatch()
		b.Retain()
		got = append(got, b)
	}
	require.NoError(t, rdr.Err())
	for i := range sc.NumFields() {
		have, wanted := column(t, got, i, sc), column(t, want, i, sc)
		require.True(t, sameValues(wanted, have), "column %s:\nwant %v\n got %v", sc.Field(i), wanted, have)
	}
}

func column(t testing.TB, batches []arrow.RecordBatch, i int, sc *arrow.Schema) arrow.Array {
	t.Helper()
	if len(batches) == 0 {
		return batch.Nulls(sc.Field(i).Type, 0, memory.DefaultAllocator)
	}
	var parts []arrow.Array
	for _, b := range batches {
		parts = append(parts, b.Column(i))
	}
	out, err := array.Concatenate(parts, memory.DefaultAllocator)
	require.NoError(t, err)
	return out
}

// sameValues compares the texts of two arrays: NaN equals NaN, and types may have other metadata.
func sameValues(a, b arrow.Array) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if a.ValueStr(i) != b.ValueStr(i) {
			return false
		}
	}
	return true
}

// limited is an account with a limit, and counts.
type limited struct{ limit, used, peak int64 }

func (l *limited) Grow(n int64) error {
	if l.used+n > l.limit {
		return fault.New(fault.Exhausted, "no memory: %d bytes more than %d", n, l.limit-l.used)
	}
	l.used += n
	l.peak = max(l.peak, l.used)
	return nil
}

func (l *limited) Shrink(n int64) { l.used -= n }

// mixed returns a number that depends on i in no regular way.
func mixed(i int) int64 {
	x := uint64(i) * 0x9e3779b97f4a7c15
	x = (x ^ x>>31) * 0xbf58476d1ce4e5b9
	return int64(x ^ x>>29)
}
