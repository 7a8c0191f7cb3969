package segmenttest

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pair returns two ends of a Unix socket.
func Pair(t testing.TB) (one, other *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // of a test
	one, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: l.Addr().String()})
	require.NoError(t, err)
	other, err = l.AcceptUnix()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, one.Close()); require.NoError(t, other.Close()) })
	return one, other
}
