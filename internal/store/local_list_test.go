package store_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
)

// TestLocalPages: a large folder is read in pages, none of which is larger than the maximum.
//
// spec: storage-36
func TestLocalPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := map[string]bool{}
	for i := range store.MaxPage + 50 {
		path := filepath.Join(dir, "small", strconv.Itoa(i))
		if i%50 > 0 {
			path = filepath.Join(dir, "large", strconv.Itoa(i))
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		want[path] = true
	}
	l, err := store.Local{}.List(t.Context(), dir)
	require.NoError(t, err)
	pages := 0
	for more := true; more; pages++ {
		var page []store.FolderEntry
		page, more, err = l.Next(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), store.MaxPage)
		for _, e := range page {
			require.True(t, want[e.Location], e.Location)
			delete(want, e.Location)
		}
	}
	require.Empty(t, want)
	require.Greater(t, pages, 3)
	page, more, err := l.Next(t.Context())
	require.NoError(t, err)
	require.Empty(t, page)
	require.False(t, more)
	require.NoError(t, l.Close())
}

// TestLocalListingsFollowNoLinks except the folder that is listed.
//
// spec: storage-36
func TestLocalListingsFollowNoLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside, table := filepath.Join(dir, "outside"), filepath.Join(dir, "table")
	for _, path := range []string{outside + "/secret", table + "/data/a"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	require.NoError(t, os.Symlink(outside, table+"/data/folder"))
	require.NoError(t, os.Symlink(outside+"/secret", table+"/data/file"))
	require.NoError(t, os.Symlink(table, table+"/data/above"))
	require.NoError(t, os.Symlink("nowhere", table+"/data/dangling"))
	require.NoError(t, os.Symlink(table, dir+"/linked"))
	for _, root := range []string{table, dir + "/linked"} {
		got := storetest.Entries(t, store.Local{}.List, root)
		require.Len(t, got, 1)
		require.Equal(t, root+"/data/a", got[0].Location)
		require.False(t, got[0].Modified.IsZero())
	}
}

// TestFoldersReplacedMeanwhile by a link lead nowhere else.
//
// spec: storage-36
func TestFoldersReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := filepath.Join(dir, "table")
	require.NoError(t, os.MkdirAll(table+"/data", 0o700))
	require.NoError(t, os.MkdirAll(dir+"/outside", 0o700))
	require.NoError(t, os.WriteFile(dir+"/outside/secret", nil, 0o600))
	l, err := store.Local{}.List(t.Context(), table)
	require.NoError(t, err)
	_, more, err := l.Next(t.Context()) // it has noted the folder
	require.NoError(t, err)
	require.True(t, more)
	require.NoError(t, os.Remove(table+"/data"))
	require.NoError(t, os.Symlink(dir+"/outside", table+"/data"))
	for more && err == nil {
		var page []store.FolderEntry
		page, more, err = l.Next(t.Context())
		require.Empty(t, page)
	}
	require.Error(t, err)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.NoError(t, l.Close())
}

// TestDiscardTakesOnlyUnfinishedFiles: the name of a file, or a path, is refused.
//
// spec: storage-37
func TestDiscardTakesOnlyUnfinishedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/a", nil, 0o600))
	for _, upload := range []string{"", "a", "../a", store.UnfinishedName("b"), "x/" + store.UnfinishedName("a")} {
		err := store.Local{}.Discard(t.Context(), store.FolderEntry{Location: dir + "/a", Upload: upload})
		require.Equal(t, fault.Internal, fault.KindOf(err), upload)
	}
	require.Equal(t, []string{"a"}, names(t, dir))
}
