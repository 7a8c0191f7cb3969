package inbound

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/certtest"
)

// countingConn counts writes, and fails them once broken is set.
type countingConn struct {
	net.Conn

	mu     sync.Mutex
	writes []int // sizes
	broken error
}

func (c *countingConn) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, len(text))
	if c.broken != nil {
		return 0, c.broken
	}
	return c.Conn.Write(text)
}

func TestRecordsOfOneWriteAreWrittenTogether(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, certtest.Make(folder, []string{"localhost"}, time.Now(), time.Hour))
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, certtest.ServerCert), filepath.Join(folder, certtest.ServerKey))
	require.NoError(t, err)
	here, there := net.Pipe()
	below := &countingConn{Conn: there}
	secure := transport(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true})
	require.Equal(t, "tls", secure.Clone().Info().SecurityProtocol)
	require.IsType(t, tlsTransport{}, secure.Clone())
	sent := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
	received := make(chan []byte)
	var client sync.WaitGroup
	client.Go(func() {
		conn := tls.Client(here, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // a test
		for _, n := range []int{len(sent), 5} {
			got := make([]byte, n)
			_, _ = io.ReadFull(conn, got)
			received <- got
		}
	})
	conn, _, err := secure.ServerHandshake(below)
	require.NoError(t, err)
	below.writes = nil
	n, err := conn.Write(sent)
	require.NoError(t, err)
	require.Equal(t, len(sent), n)
	require.Equal(t, sent, <-received)
	require.LessOrEqual(t, len(below.writes), 5, "256 KiB in writes of four records: %v", below.writes)
	_, err = conn.Write([]byte("short"))
	require.NoError(t, err)
	require.Equal(t, "short", string(<-received), "nothing is held back")

	below.broken = errors.New("the cable is cut")
	_, err = conn.Write([]byte("lost"))
	require.ErrorIs(t, err, below.broken)
	require.NoError(t, here.Close())
	_ = conn.Close()
	client.Wait()
}
