package inbound

import (
	"crypto/tls"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// transport returns how connections are secured: by TLS, whose handshake is limited by handshakeTimeout and follows the
// limits of connections, or not at all. After its handshake, a TLS connection returns the address of the one below it, so
// that connections finds it.
func transport(config *tls.Config) credentials.TransportCredentials {
	if config == nil {
		return insecure.NewCredentials()
	}
	return tlsTransport{credentials.NewTLS(config), &sync.Pool{New: func() any {
		b := make([]byte, 0, maxCollected)
		return &b
	}}}
}

// tlsTransport is TLS whose connections write the records of one write together: a record has at most 16 KiB, and a system call
// for each costs as much as the encryption.
type tlsTransport struct {
	credentials.TransportCredentials
	buffers *sync.Pool // those of connections that are not writing
}

// ServerHandshake implements credentials.TransportCredentials.
func (t tlsTransport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	below := &collectingConn{Conn: raw, buffers: t.buffers}
	conn, peer, err := t.TransportCredentials.ServerHandshake(below)
	if err != nil {
		return nil, nil, err
	}
	return &tlsConn{Conn: conn, below: below}, peer, nil
}

// Clone implements credentials.TransportCredentials.
func (t tlsTransport) Clone() credentials.TransportCredentials {
	return tlsTransport{t.TransportCredentials.Clone(), t.buffers}
}

// tlsConn is a TLS connection.
type tlsConn struct {
	net.Conn
	below   *collectingConn
	writing sync.Mutex
}

// Write implements net.Conn.
func (c *tlsConn) Write(text []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.below.collect()
	n, err := c.Conn.Write(text)
	if flushed := c.below.flush(); err == nil && flushed != nil {
		return 0, flushed
	}
	return n, err
}

// maxCollected is the number of bytes after which collected records are written: those of four records. A connection whose client
// does not read holds them.
const maxCollected = 66 << 10

// collectingConn collects what is written between collect and flush. Other writes, of handshakes and alerts, pass through it,
// in the order in which they come.
type collectingConn struct {
	net.Conn
	buffers *sync.Pool

	mu     sync.Mutex
	buffer *[]byte // nil: writes pass
}

func (c *collectingConn) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buffer, _ = c.buffers.Get().(*[]byte)
}

// Write implements net.Conn.
func (c *collectingConn) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buffer == nil {
		return c.Conn.Write(text)
	}
	if len(*c.buffer)+len(text) > maxCollected {
		if err := c.writeCollected(); err != nil {
			return 0, err
		}
	}
	*c.buffer = append(*c.buffer, text...)
	return len(text), nil
}

// flush writes what was collected, and lets later writes pass.
func (c *collectingConn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.writeCollected()
	c.buffers.Put(c.buffer)
	c.buffer = nil
	return err
}

// writeCollected writes what was collected. mu is held.
func (c *collectingConn) writeCollected() error {
	if len(*c.buffer) == 0 {
		return nil
	}
	_, err := c.Conn.Write(*c.buffer)
	*c.buffer = (*c.buffer)[:0]
	return err
}
