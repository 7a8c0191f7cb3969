package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
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

// onlyReads hides that a store writes.
type onlyReads struct{ store.Store }

// What cannot be written is Unavailable, and names the file; nothing is made.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ended, end := context.WithCancelCause(t.Context())
	over := errors.New("over")
	end(over)
	require.ErrorIs(t, store.Local{}.Create(ended, dir+"/a", nil), over)
	require.ErrorIs(t, store.Local{}.Remove(ended, dir+"/a"), over)
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	for _, location := range []string{dir + "/file/a", dir + "/file/a/b"} {
		err := store.Local{}.Create(t.Context(), location, memory.NewBufferBytes(nil))
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
		require.Equal(t, location, fault.As(err).File)
		_, err = store.Local{}.Begin(t.Context(), location, nil)
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
		require.Equal(t, location, fault.As(err).File)
	}
	err := store.Local{}.Create(t.Context(), "s3://b/a", nil)
	require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String())
	_, err = store.Local{}.Begin(t.Context(), dir+"/folder/", nil)
	require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String())
	reader := store.NewBounded(onlyReads{storetest.NewMemory()}, store.NewCalls(store.Options{}))
	require.EqualError(t, reader.Create(t.Context(), dir+"/a", memory.NewBufferBytes(nil)), store.ReadOnly(dir+"/a").Error())
	require.EqualError(t, reader.Remove(t.Context(), dir+"/a"), store.ReadOnly(dir+"/a").Error())
	_, err = reader.Begin(t.Context(), dir+"/a", nil)
	require.EqualError(t, err, store.ReadOnly(dir+"/a").Error())
	_, err = reader.List(t.Context(), dir)
	require.EqualError(t, err, store.Unlistable(dir).Error())
	require.EqualError(t, reader.Discard(t.Context(), store.FolderEntry{Location: dir + "/a"}), store.Unlistable(dir+"/a").Error())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
