package spool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// The bytes of a folder's files count against the limit until the folder is released.
//
// spec: stage-187
func TestFolders(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	s, err := Open(Options{Folder: place, Limit: 10})
	require.NoError(t, err)
	f, err := s.CreateFolder("the tables")
	require.NoError(t, err)
	file, err := f.Create(f.Path("a"))
	require.NoError(t, err)
	_, err = file.Write([]byte("1234567"))
	require.NoError(t, err)
	_, err = file.Write([]byte("89ab"))
	require.Equal(t, fault.Exhausted, fault.KindOf(err), err)
	require.ErrorContains(t, err, "the tables needs 4 bytes more")
	require.NoError(t, file.Close())
	require.Equal(t, int64(7), s.Stats().Used)
	content, err := os.ReadFile(f.Path("a"))
	require.NoError(t, err)
	require.Equal(t, "1234567", string(content))
	f.Release()
	require.NoDirExists(t, f.Path(""))
	require.Equal(t, Stats{Peak: 7, Written: 7}, s.Stats())
	left, err := os.ReadDir(place)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A folder that a killed process left is removed; one of a running process stays.
//
// spec: stage-187
func TestFoldersOfKilledProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	s, err := Open(Options{Folder: place})
	require.NoError(t, err)
	used, err := s.CreateFolder("rows")
	require.NoError(t, err)
	defer used.Release()
	left := filepath.Join(place, "penstock-1.folder")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "temporary"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, lockFile), nil, 0o600))
	other := filepath.Join(place, "penstock-2.folder") // not of Penstock: it has no lock file
	require.NoError(t, os.Mkdir(other, 0o700))
	_, err = Open(Options{Folder: place})
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.DirExists(t, other)
	require.DirExists(t, used.Path(""))
}
