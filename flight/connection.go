package flight

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/stats"
)

// connection is a client's connection. Its streams' contexts lead to it.
type connection struct {
	conn net.Conn // nil where it cannot be told which one it is
}

// cut closes the connection, if it can be: all its streams end.
func (c *connection) cut() {
	if c != nil && c.conn != nil {
		_ = c.conn.Close() // that it was closed already is as good
	}
}

// connectionKey is the key of a context's connection.
type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// connections finds out which connection a stream came by: gRPC does not say,
// but gives the address as the connection has it, whose pointer is its own.
type connections struct {
	ended func(*connection)

	mu   sync.Mutex
	open map[net.Addr]net.Conn
}

// listener lets the connections of another one be known.
type listener struct {
	net.Listener
	*connections
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	switch at := c.RemoteAddr().(type) {
	case *net.TCPAddr, *net.UnixAddr:
		l.mu.Lock()
		l.open[at] = c
		l.mu.Unlock()
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

// HandleConn implements stats.Handler. When a connection ends, nothing of gRPC
// reads what was handed to it any more.
func (c *connections) HandleConn(ctx context.Context, of stats.ConnStats) {
	if _, end := of.(*stats.ConnEnd); end {
		c.ended(connectionOf(ctx))
	}
}

// TagRPC implements stats.Handler.
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (*connections) HandleRPC(context.Context, stats.RPCStats) {}
