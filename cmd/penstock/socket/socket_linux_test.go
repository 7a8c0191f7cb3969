package socket

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Accepted connections have a larger send buffer than the system's default, within the limit of the
// system.
func TestSendBufferIsEnlarged(t *testing.T) {
	folder, err := os.MkdirTemp("", "s") //nolint:usetesting // whose folders have long names
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "sock")
	l, err := Listen(t.Context(), Streams, path)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	dialed, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, dialed.Close()) }()
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer func() { require.NoError(t, accepted.Close()) }()

	limit, err := os.ReadFile("/proc/sys/net/core/wmem_max")
	require.NoError(t, err)
	most, err := strconv.Atoi(string(bytes.TrimSpace(limit)))
	require.NoError(t, err)
	require.Equal(t, 2*min(sendBuffer, most), sendBufferOf(t, accepted))
	require.Greater(t, sendBufferOf(t, accepted), sendBufferOf(t, dialed), "which has the default")
}

// sendBufferOf returns the size of a connection's send buffer.
func sendBufferOf(t *testing.T, c net.Conn) (size int) {
	t.Helper()
	of, ok := c.(*net.UnixConn)
	require.True(t, ok)
	raw, err := of.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	}))
	require.NoError(t, err)
	return size
}
