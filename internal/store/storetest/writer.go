package storetest

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// RunWriter checks that a store follows the contract of store.Writer. location returns the location
// that a file with the given name would have in an existing folder. There is no such file.
func RunWriter(t *testing.T, s store.Store, location func(name string) string) {
	t.Helper()
	w, ok := s.(store.Writer)
	require.True(t, ok, "the store writes")
	read := func(t *testing.T, at string) []byte {
		t.Helper()
		o, err := s.Open(t.Context(), at, store.SizeUnknown)
		require.NoError(t, err)
		defer func() { require.NoError(t, o.Close()) }()
		out := make([]byte, o.Size())
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(out), 0))
		return out
	}
	content := sample(10_000)
	t.Run("a new file has the given content", func(t *testing.T) {
		at := location("new 100%25?#.json")
		require.NoError(t, w.Create(t.Context(), at, memory.NewBufferBytes(content)))
		require.Equal(t, content, read(t, at))
	})
	t.Run("an existing file is not changed", func(t *testing.T) {
		at := location("there.json")
		require.NoError(t, w.Create(t.Context(), at, memory.NewBufferBytes(content)))
		err := w.Create(t.Context(), at, memory.NewBufferBytes([]byte("other")))
		require.Equal(t, fault.Conflict.String(), fault.KindOf(err).String())
		require.Equal(t, at, fault.As(err).File)
		require.Equal(t, content, read(t, at))
	})
	t.Run("removing a file twice succeeds", func(t *testing.T) {
		at := location("gone.json")
		require.NoError(t, w.Create(t.Context(), at, memory.NewBufferBytes(content)))
		for range 2 {
			require.NoError(t, w.Remove(t.Context(), at))
			_, err := s.Open(t.Context(), at, store.SizeUnknown)
			require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String())
		}
	})
}
