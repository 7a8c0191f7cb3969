package inbound

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/stats"
)

// TestConnectionsAreLimited: connections beyond the limits are closed at once, and are logged; those that end leave room.
//
// spec: wire-45
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := serve(t, Options{MaxConnections: 8, HostShare: 50, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func() {})
	open := make([]net.Conn, 4)
	for i := range open {
		var err error
		open[i], err = net.Dial("tcp", s.address)
		require.NoError(t, err)
	}
	refused := func() bool {
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		defer c.Close() //nolint:errcheck // of a test
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		n, _ := c.Read(make([]byte, 1)) // the server's settings come first
		return n == 0
	}
	require.True(t, refused())
	require.True(t, refused())
	accepted := func(host byte) bool {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
		c, err := from.Dial("tcp", s.address)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		n, _ := c.Read(make([]byte, 1))
		open = append(open, c)
		return n > 0
	}
	for i := range 5 {
		require.Equal(t, i < 4, accepted(2))
	}
	for range 3 { // each takes the place of another host's
		require.True(t, accepted(3))
	}
	require.False(t, accepted(3), "no host has more")
	conns := func(host string) (of []*countedConn) {
		s.connections.mu.Lock()
		defer s.connections.mu.Unlock()
		return slices.Clone(s.connections.accepted.Of(host))
	}
	var counts []int
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		of := conns(host)
		counts = append(counts, len(of))
		for _, c := range of {
			c.calls.Add(1)
		}
	}
	require.Equal(t, 3, counts[2])
	require.ElementsMatch(t, []int{2, 3}, counts[:2], "of hosts with equally many, any one gives up a connection")
	busy := conns("127.0.0.3")
	require.False(t, accepted(4), "all have calls")
	busy[0].calls.Add(-1)
	require.True(t, accepted(4))
	require.Len(t, conns("127.0.0.3"), 2)
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return !refused() }, 10*time.Second, time.Millisecond)
	_, err := s.GetFlightInfo(t.Context(), request())
	require.NoError(t, err)
	s.stop()
	require.Equal(t, 1, strings.Count(log.String(), "connections refused"))
	require.Contains(t, log.String(), "refused=1 host=127.0.0.1")
	require.Zero(t, s.connections.accepted.Len())
}

// TestConnectionsThatFailAreForgotten: nothing is kept of a connection that ends before its client has spoken HTTP/2, as
// those of load balancers that probe the port.
func TestConnectionsThatFailAreForgotten(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, func() {})
	for range 3 {
		c, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1)) // the server's settings: the connection was accepted
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool {
		s.connections.mu.Lock()
		defer s.connections.mu.Unlock()
		return s.connections.accepted.Len() == 0
	}, 10*time.Second, time.Millisecond)
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	require.Empty(t, s.connections.open)
}

// TestDeadlinesEndWithTheConnection: the contexts of a connection's calls end with it.
func TestDeadlinesEndWithTheConnection(t *testing.T) {
	t.Parallel()
	c := newConnections(0, 100, time.Now, func(*Connection) {}, func(string) {})
	of := c.TagConn(t.Context(), &stats.ConnTagInfo{})
	call, cancel := context.WithTimeout(of, time.Hour)
	defer cancel()
	require.NoError(t, call.Err())
	c.HandleConn(of, &stats.ConnEnd{})
	require.Error(t, call.Err())
}

// TestBlockedWritesAreMeasured has writes that end at once, and one that waits.
func TestBlockedWritesAreMeasured(t *testing.T) {
	t.Parallel()
	now := time.Unix(5, 0)
	b := blockedWrites{ticks: func() time.Time { return now }, began: now}
	end := b.begin()
	now = now.Add(blockedAfter - 1)
	end()
	all, waits := b.now()
	require.Zero(t, all)
	require.False(t, waits)
	end = b.begin()
	now = now.Add(time.Second)
	all, waits = b.now()
	require.Equal(t, time.Second, all)
	require.True(t, waits)
	end()
	all, waits = b.now()
	require.Equal(t, time.Second, all)
	require.False(t, waits)
	all, waits = (*Connection)(nil).Blocked()
	require.Zero(t, all)
	require.False(t, waits)
}
