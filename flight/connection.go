package flight

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/stats"
)

// connection is the connection of a client. The contexts of its streams carry it.
type connection struct {
	conn net.Conn // nil if it could not be identified
}

// cut closes the connection, if it is known: all its streams end.
func (c *connection) cut() {
	if c != nil && c.conn != nil {
		_ = c.conn.Close() // it may be closed already
	}
}

// connectionKey is the key of a context's connection.
type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// connections identifies the connection of each stream. gRPC does not expose it, but passes
// on the address that the connection returned, and each connection returns its own pointer.
type connections struct {
	ended func(*connection)

	mu   sync.Mutex
	open map[net.Addr]net.Conn
}

// listener records the connections that it accepts.
type listener struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	switch at := c.RemoteAddr().(type) {
	case *net.TCPAddr, *net.UnixAddr:
		l.connections.mu.Lock()
		l.connections.open[at] = c
		l.connections.mu.Unlock()
	}
	return c, nil
}

// TagConn implements stats.Handler.
func (c *connections) TagConn(ctx context.Context, of *stats.ConnTagInfo) context.Context {
	found := &connection{}
	switch of.RemoteAddr.(type) {
	case *net.TCPAddr, *net.UnixAddr:
		c.mu.Lock()
		found.conn = c.open[of.RemoteAddr]
		delete(c.open, of.RemoteAddr)
		c.mu.Unlock()
	}
	return context.WithValue(ctx, connectionKey{}, found)
}

// HandleConn implements stats.Handler. After a connection has ended, gRPC no longer reads what
// was handed to it.
func (c *connections) HandleConn(ctx context.Context, of stats.ConnStats) {
	if _, end := of.(*stats.ConnEnd); end {
		c.ended(connectionOf(ctx))
	}
}

// TagRPC implements stats.Handler.
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (*connections) HandleRPC(context.Context, stats.RPCStats) {}
