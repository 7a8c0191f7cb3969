//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package spool

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSweepLeavesWhatItDidNotMake: files of other names or types, and those of another folder whose name a
// pattern would match, stay.
//
// spec: output-9
func TestSweepLeavesWhatItDidNotMake(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	place, other := filepath.Join(parent, "[ab]"), filepath.Join(parent, "a")
	for _, folder := range []string{place, other, filepath.Join(place, "penstock-2.spool")} {
		require.NoError(t, os.Mkdir(folder, 0o700))
	}
	for _, path := range []string{
		filepath.Join(place, "penstock-1.spool"), filepath.Join(place, "penstock-notes.spool"), filepath.Join(place, "penstock-1.spool.old"),
		filepath.Join(other, "penstock-1.spool"), filepath.Join(parent, "target"),
	} {
		require.NoError(t, os.WriteFile(path, []byte("rows"), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(parent, "target"), filepath.Join(place, "penstock-3.spool")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(place, "penstock-4.spool"), 0o600)) // which nothing writes
	s, err := Open(Options{Folder: place})
	require.NoError(t, err)
	require.NoError(t, s.Try())
	left, err := os.ReadDir(place)
	require.NoError(t, err)
	var names []string
	for _, f := range left {
		names = append(names, f.Name())
	}
	require.ElementsMatch(t, []string{"penstock-2.spool", "penstock-3.spool", "penstock-4.spool", "penstock-notes.spool", "penstock-1.spool.old"}, names)
	require.FileExists(t, filepath.Join(other, "penstock-1.spool"))
	require.FileExists(t, filepath.Join(parent, "target"))
}
