package inbound

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestConnectionsHaveAUserTimeout: the system ends a TCP connection whose client acknowledges nothing.
func TestConnectionsHaveAUserTimeout(t *testing.T) {
	t.Parallel()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer on.Close() //nolint:errcheck // of a test
	client, err := net.Dial("tcp", on.Addr().String())
	require.NoError(t, err)
	defer client.Close() //nolint:errcheck // of a test
	c := newConnections(0, 100, time.Now, func(*Connection) {}, func(string) {})
	accepted, err := listener{on, c}.Accept()
	require.NoError(t, err)
	defer accepted.Close() //nolint:errcheck // of a test
	raw, err := accepted.(*countedConn).Conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		require.NoError(t, err)
		require.EqualValues(t, pingTimeout.Milliseconds(), got)
	}))
}
