//go:build unix

package auth

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
)

// Ticket keys that others may use are refused.
func TestTicketKeysThatOthersMayUse(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o700: false, 0o640: true, 0o604: true, 0o622: true} {
		path := filepath.Join(t.TempDir(), "tickets.keys")
		require.NoError(t, os.WriteFile(path, []byte("k1 QUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJD\n"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		_, err := ticketKeys(config.Server{TicketKeys: path})
		if !refused {
			require.NoError(t, err, mode)
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), mode)
		require.ErrorContains(t, err, "chmod 600", mode)
	}
}
