//go:build unix

package keyfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// owned is a file that belongs to a user.
type owned struct {
	os.FileInfo
	user uint32
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: o.user} }

func TestKeyFilesBelongToRootOrThisUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tickets.keys")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	file, err := os.Stat(path)
	require.NoError(t, err)
	require.Empty(t, writers(file))
	require.Empty(t, writers(owned{file, 0}))
	require.Equal(t, "user 4242", writers(owned{file, 4242}))
}
