//go:build unix

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
)

// A key file that others may write is refused, one that others may read is
// served, and logged.
func TestKeyFilesOfOthers(t *testing.T) {
	for mode, want := range map[os.FileMode]struct{ refused, warned bool }{
		0o600: {}, 0o400: {}, 0o700: {},
		0o640: {warned: true}, 0o604: {warned: true}, 0o444: {warned: true},
		0o620: {refused: true}, 0o602: {refused: true}, 0o666: {refused: true},
	} {
		path := filepath.Join(t.TempDir(), "tickets.keys")
		require.NoError(t, os.WriteFile(path, []byte("k1 QUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJD\n"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		var lines bytes.Buffer
		_, err := ticketKeys(config.Server{TicketKeys: path}, telemetry.NewLogger(&lines, slog.LevelInfo, "text"))
		if want.refused {
			require.ErrorContains(t, err, "may write "+path, mode)
			require.ErrorContains(t, err, "chmod 600", mode)
			require.Equal(t, fault.Invalid, fault.KindOf(err), mode)
		} else {
			require.NoError(t, err, mode)
		}
		require.Equal(t, want.warned, bytes.Contains(lines.Bytes(), []byte("others may read the ticket keys")), "%s: %s", mode, lines.String())
	}
}

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
