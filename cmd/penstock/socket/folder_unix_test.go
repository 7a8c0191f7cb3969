//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package socket_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/socket"
	"github.com/penstock/penstock/internal/fault"
)

// A folder is created only in an existing folder, and only for this user. Nothing else is created
// or changed.
//
// spec: output-9
func TestPrivateFolder(t *testing.T) {
	parent := t.TempDir()
	made := filepath.Join(parent, "made")
	for range 2 {
		require.NoError(t, socket.PrivateFolder(made))
		found, err := os.Stat(made)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o700), found.Mode().Perm())
	}
	plain, open := filepath.Join(parent, "plain"), filepath.Join(parent, "open")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	require.NoError(t, os.Mkdir(open, 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(parent, "dangling")))
	for _, path := range []string{
		filepath.Join(parent, "typo", "folder"), filepath.Join(plain, "folder"), plain, open,
		filepath.Join(parent, "dangling"), filepath.Join(parent, "dangling", "folder"),
	} {
		e := fault.As(socket.PrivateFolder(path))
		require.Contains(t, e.Error(), path)
		require.Contains(t, e.Remedy, "choose a path", path)
	}
	left, err := filepath.Glob(filepath.Join(parent, "*"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{made, plain, open, filepath.Join(parent, "dangling")}, left)
	found, err := os.Stat(open)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), found.Mode().Perm())
}
