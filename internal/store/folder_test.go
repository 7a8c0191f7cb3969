package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

func TestMakeFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bounded := store.NewBounded(store.Local{}, store.NewCalls(store.Options{Timeout: time.Minute}))
	for i, files := range []store.FolderMaker{store.Local{}, bounded} {
		location := "file://" + filepath.Join(dir, string(rune('a'+i)), "b", "c.json")
		for range 2 {
			require.NoError(t, files.MakeFolder(t.Context(), location))
		}
		writer, ok := files.(store.Writer)
		require.True(t, ok)
		require.NoError(t, writer.Create(t.Context(), location, []byte("x")))
		stopped, stop := context.WithCancel(t.Context())
		stop()
		require.ErrorIs(t, files.MakeFolder(stopped, location+"/d/e"), context.Canceled)
		err := files.MakeFolder(t.Context(), location+"/d/e")
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "a file is no folder: %v", err)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
