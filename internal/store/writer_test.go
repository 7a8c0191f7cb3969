package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestWriters(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]store.Store{
		"local":   store.Local{},
		"bounded": store.NewBounded(store.Local{}, store.NewCalls(store.Options{Timeout: time.Minute})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			storetest.RunWriter(t, s, func(name string) string { return "file://" + filepath.Join(dir, name) })
		})
	}
}

// What cannot be written is Unavailable, and names the file; nothing is made.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ended, end := context.WithCancelCause(t.Context())
	over := errors.New("over")
	end(over)
	require.ErrorIs(t, store.Local{}.Create(ended, dir+"/a", nil), over)
	require.ErrorIs(t, store.Local{}.Remove(ended, dir+"/a"), over)
	err := store.Local{}.Create(t.Context(), dir+"/none/a", nil)
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.Equal(t, dir+"/none/a", fault.As(err).File)
	err = store.Local{}.Create(t.Context(), "s3://b/a", nil)
	require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String())
	reader := store.NewBounded(storetest.NewMemory(), store.NewCalls(store.Options{}))
	require.EqualError(t, reader.Create(t.Context(), dir+"/a", nil), store.ReadOnly(dir+"/a").Error())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
