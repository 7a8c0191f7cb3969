//go:build unix

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/telemetry"
)

// A key file that others may write is refused; one that others may read is logged.
func TestKeyFilesThatOthersMayUse(t *testing.T) {
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
