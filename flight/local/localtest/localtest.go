// Package localtest has a client of local sockets for tests and attacks. The client implements
// docs/spec/local.md, and uses none of the server's code.
package localtest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/segment/segmenttest"
)

// network is the network of local sockets in package net: sockets of type SOCK_SEQPACKET.
const network = "unixpacket"

// The kinds of records.
const (
	Seen     = 1
	Returned = 2
	Forked   = 3
)

// SessionClient is the client's end of a session.
type SessionClient struct {
	*net.UnixConn

	ID string // of the session, for a DoGet
}

// Serve creates a local socket, calls the function serve to accept sessions on it until the test
// ends, and returns the socket's path.
func Serve(t testing.TB, serve func(net.Listener) error) (path string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "s") //nolint:usetesting // t.TempDir's paths are too long for a socket
	require.NoError(t, err)
	path = filepath.Join(folder, "l")
	on, err := net.Listen(network, path)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- serve(on) }()
	t.Cleanup(func() {
		require.NoError(t, on.Close())
		require.NoError(t, <-served)
		require.NoError(t, os.RemoveAll(folder))
	})
	return path
}

// Dial connects to a local socket.
func Dial(path string) (*net.UnixConn, error) {
	return net.DialUnix(network, nil, &net.UnixAddr{Name: path, Net: network})
}

// Open connects to a local socket, and receives the id of the session. The caller closes the client.
func Open(path string) (*SessionClient, error) {
	conn, err := Dial(path)
	if err != nil {
		return nil, err
	}
	packet := make([]byte, 256)
	n, err := conn.Read(packet)
	var said struct {
		V       int    `json:"v"`
		Session string `json:"session"`
	}
	if err == nil {
		err = json.Unmarshal(packet[:n], &said)
	}
	if err == nil && (said.V != 1 || said.Session == "") {
		err = fmt.Errorf("the first packet is %s", packet[:n])
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &SessionClient{conn, said.Session}, nil
}

// Receive returns the next delivery's number and memory. The caller closes the memory.
func (c *SessionClient) Receive() (number uint32, memory *segmenttest.Received, err error) {
	packet := make([]byte, 16)
	n, memory, err := segmenttest.Receive(c.UnixConn, packet)
	if err != nil {
		return 0, nil, err
	}
	if n != 4 {
		return 0, nil, errors.Join(fmt.Errorf("the packet of a delivery has %d bytes", n), memory.Close())
	}
	return binary.LittleEndian.Uint32(packet), memory, nil
}

// Report sends records, each a kind and a number, in one packet.
func (c *SessionClient) Report(records ...[2]uint32) error {
	var packet []byte
	for _, r := range records {
		packet = binary.LittleEndian.AppendUint32(packet, r[0])
		packet = binary.LittleEndian.AppendUint32(packet, r[1])
	}
	_, err := c.Write(packet)
	return err
}
