//go:build unix

package keyfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
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

// spec: access-4
func TestFilesThatOthersMayUseAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.key")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	for mode, refused := range map[os.FileMode]struct{ secret, public bool }{
		0o600: {}, 0o400: {}, 0o640: {secret: true}, 0o604: {secret: true}, 0o601: {secret: true}, 0o444: {secret: true},
		0o620: {secret: true, public: true}, 0o602: {secret: true, public: true}, 0o666: {secret: true, public: true},
	} {
		require.NoError(t, os.Chmod(path, mode))
		for use, want := range map[Use]bool{Secret: refused.secret, Public: refused.public} {
			text, err := Read("tls_key", path, use)
			if !want {
				require.NoError(t, err, mode)
				require.Equal(t, "text", string(text))
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err), mode)
			require.Contains(t, fault.As(err).Remedy, "chmod 600", mode)
		}
	}
}

func TestFilesThatCannotBeReadAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{filepath.Join(dir, "none"), dir, pipe} {
		_, err := Read("tls_key", path, Secret)
		require.Equal(t, fault.Invalid, fault.KindOf(err), path)
		require.Contains(t, fault.As(err).Remedy, "set tls_key to a file", path)
	}
}
