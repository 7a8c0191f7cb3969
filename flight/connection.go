package flight

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// connection is the connection of a client. The contexts of its streams carry it.
type connection struct {
	conn net.Conn           // nil if it could not be identified
	end  context.CancelFunc // ends the contexts of its calls
	kept atomic.Int64       // calls that gRPC keeps something of until their deadline, or until end
}

// keep counts a refused call of which gRPC keeps its deadline, and cuts a connection with too many of them.
func (c *connection) keep() {
	if c != nil && c.kept.Add(1) == maxRefused+1 {
		go c.cut() // the caller must not block
	}
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
	ended   func(*connection)
	refused func(host string) // is called for each connection beyond a limit
	counts  *hostCounts       // of connections that are not closed

	mu   sync.Mutex
	open map[net.Addr]net.Conn // accepted, and neither tagged nor closed yet
}

// newConnections makes a connections. At most limit connections may be open, and of one host a percentage of them.
func newConnections(limit, hostShare int, ended func(*connection), refused func(host string)) *connections {
	return &connections{ended: ended, refused: refused, counts: newHostCounts(limit, hostShare), open: map[net.Addr]net.Conn{}}
}

// listener records the connections that it accepts. It closes those beyond the limits at once: in the queue of the system, they
// would keep those of others waiting.
type listener struct {
	net.Listener
	connections *connections
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.connections.add(c); counted != nil {
			return counted, nil
		}
		_ = c.Close() // nothing was sent
		l.connections.refused(hostOfAddr(c.RemoteAddr()))
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// add counts a connection, or returns nil if it is beyond a limit.
func (c *connections) add(conn net.Conn) net.Conn {
	host := hostOfAddr(conn.RemoteAddr())
	if !c.counts.enter(host) {
		return nil
	}
	at := conn.RemoteAddr()
	counted := &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.leave(at, host) })}
	if identifies(at) {
		c.mu.Lock()
		c.open[at] = counted
		c.mu.Unlock()
	}
	return counted
}

// identifies reports whether an address is a pointer, which no other connection returns.
func identifies(at net.Addr) bool {
	switch at.(type) {
	case *net.TCPAddr, *net.UnixAddr:
		return true
	}
	return false
}

// leave forgets a connection that is closed. gRPC does not tag those that fail before their client has spoken HTTP/2.
func (c *connections) leave(at net.Addr, host string) {
	c.counts.leave(host)
	if identifies(at) {
		c.mu.Lock()
		delete(c.open, at)
		c.mu.Unlock()
	}
}

// TagConn implements stats.Handler.
func (c *connections) TagConn(ctx context.Context, of *stats.ConnTagInfo) context.Context {
	ctx, end := context.WithCancel(ctx)
	found := &connection{end: end}
	if identifies(of.RemoteAddr) {
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
		of := connectionOf(ctx)
		of.end()
		c.ended(of)
	}
}

// TagRPC implements stats.Handler.
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (*connections) HandleRPC(context.Context, stats.RPCStats) {}
