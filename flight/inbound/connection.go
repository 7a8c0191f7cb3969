package inbound

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"

	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/flight/limits"
)

// Connection is the connection of a client. The contexts of its calls carry it. A nil Connection is one that is not known.
type Connection struct {
	conn    net.Conn           // nil if it could not be identified
	number  int64              // unique among the connections of the server
	end     context.CancelFunc // ends the contexts of its calls
	kept    atomic.Int64       // refused calls whose deadline timers gRPC keeps until the deadlines pass, or until end
	watches atomic.Int64       // calls that watch the health of the server
}

// Watch counts a call that watches the health of the server until leave is called. It returns false if there are too many of them on
// the connection.
func (c *Connection) Watch() (leave func(), ok bool) {
	if c == nil {
		return func() {}, true
	}
	leave = func() { c.watches.Add(-1) }
	if c.watches.Add(1) > maxWatches {
		leave()
		return nil, false
	}
	return leave, true
}

// keep counts a refused call whose deadline timer gRPC keeps, and closes the connection if there
// are too many of them.
func (c *Connection) keep() {
	if c != nil && c.kept.Add(1) == maxRefused+1 {
		go c.cut() // the caller must not block
	}
}

// counted returns the connection that the listener accepted; nil if it is not known.
func (c *Connection) counted() *countedConn {
	if c == nil {
		return nil
	}
	counted, _ := c.conn.(*countedConn)
	return counted
}

// cut closes the connection, if it is known: all its streams end.
func (c *Connection) cut() {
	if c != nil && c.conn != nil {
		_ = c.conn.Close() // it may be closed already
	}
}

// Number returns the number of the connection, which is unique on the server.
func (c *Connection) Number() int64 { return c.number }

// Client returns the client of a stream on the connection.
func (c *Connection) Client() frames.Client {
	switch {
	case c == nil:
		return frames.Client{}
	case c.conn == nil:
		return frames.Client{Connection: c}
	}
	return frames.Client{Connection: c, Cut: c.cut}
}

// connectionKey is the key of a context's connection.
type connectionKey struct{}

// ConnectionOf returns the connection of a context that gRPC made; nil if it has none.
func ConnectionOf(ctx context.Context) *Connection {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	return c
}

// connections identifies the connection of each stream. gRPC does not expose the connection, but it
// passes on the address that the connection returned, and each connection returns an address with a
// pointer of its own.
type connections struct {
	ticks   func() time.Time
	ended   func(*Connection)           // is called after gRPC has released a connection
	refused func(host string)           // is called for each connection beyond a limit
	read    func(c *countedConn, n int) // is called after each read of a connection with calls that have not arrived

	tagged atomic.Int64 // connections so far

	mu       sync.Mutex
	open     map[net.Addr]net.Conn      // connections that were accepted, and are neither tagged nor closed yet
	accepted *limits.Room[*countedConn] // connections that are not closed
}

// newConnections returns an empty connections. At most limit connections may be open, and one host
// may have hostShare percent of them.
func newConnections(limit, hostShare int, ticks func() time.Time, ended func(*Connection), refused func(host string)) *connections {
	return &connections{
		ticks: ticks, ended: ended, refused: refused, open: map[net.Addr]net.Conn{},
		accepted: limits.NewRoom[*countedConn](limit, hostShare),
		read:     func(*countedConn, int) {},
	}
}

// listener records the connections that it accepts. It accepts connections beyond the limits, too,
// and closes them at once: if they stayed in the queue of the operating system, they would keep the
// connections of other clients waiting.
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
		l.connections.refused(HostOf(c.RemoteAddr()))
	}
}

// countedConn is a connection that counts toward the limits until it is closed.
type countedConn struct {
	net.Conn
	host     string
	calls    atomic.Int32 // Flight calls whose requests have arrived
	closed   func()
	read     func(c *countedConn, n int)
	received receivedBytes
	blocked  blockedWrites
}

// receivedBytes counts the bytes that a connection receives while it has calls whose requests have
// not arrived. The count includes the bytes of the last read before the first of these calls was
// known.
type receivedBytes struct {
	last  int64 // bytes of the last read; used only by the goroutine that reads
	bytes int64 // guarded by arrivals.mu
	on    atomic.Bool
}

// begin starts the count, and returns the bytes of the last read.
func (r *receivedBytes) begin() int64 {
	r.bytes = r.last
	r.on.Store(true)
	return r.bytes
}

// add counts n bytes, and returns them.
func (r *receivedBytes) add(n int64) int64 {
	r.bytes += n
	return n
}

// end ends the count, and returns its result.
func (r *receivedBytes) end() int64 {
	r.on.Store(false)
	return r.bytes
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.last = int64(n)
	if c.received.on.Load() {
		c.read(c, n)
	}
	return n, err
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// add counts a connection, or returns nil if it is beyond a limit. If all places are taken, add
// closes an idle connection of a host that has more connections than this one, so that other hosts
// cannot keep a host out, however many they are.
func (c *connections) add(conn net.Conn) net.Conn {
	counted := &countedConn{Conn: conn, host: HostOf(conn.RemoteAddr()), read: c.read, blocked: blockedWrites{ticks: c.ticks, began: c.ticks()}}
	counted.closed = sync.OnceFunc(func() { c.leave(counted) })
	gone, entered := c.enter(counted)
	if gone != nil {
		_ = gone.Close() // the client notices that the connection is closed
		c.refused(gone.host)
	}
	if !entered {
		return nil
	}
	setUserTimeout(conn, pingTimeout)
	return counted
}

// enter adds a connection, and may remove another one to make room.
func (c *connections) enter(conn *countedConn) (gone *countedConn, entered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone, entered = c.accepted.Enter(conn.host, conn, func(o *countedConn) bool { return o.calls.Load() == 0 })
	if at := conn.RemoteAddr(); entered && identifies(at) {
		c.open[at] = conn
	}
	return gone, entered
}

// identifies reports whether an address is a pointer, which no other connection returns.
func identifies(at net.Addr) bool {
	switch at.(type) {
	case *net.TCPAddr, *net.UnixAddr:
		return true
	}
	return false
}

// leave removes a connection that is closed. gRPC does not tag those that fail before their HTTP/2 handshake.
func (c *connections) leave(conn *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := conn.RemoteAddr(); identifies(at) {
		delete(c.open, at)
	}
	c.accepted.Leave(conn.host, conn)
}

// TagConn implements stats.Handler.
func (c *connections) TagConn(ctx context.Context, of *stats.ConnTagInfo) context.Context {
	ctx, end := context.WithCancel(ctx)
	found := &Connection{end: end, number: c.tagged.Add(1)}
	if identifies(of.RemoteAddr) {
		c.mu.Lock()
		found.conn = c.open[of.RemoteAddr]
		delete(c.open, of.RemoteAddr)
		c.mu.Unlock()
	}
	return context.WithValue(ctx, connectionKey{}, found)
}

// HandleConn implements stats.Handler. After a connection has ended, gRPC no longer reads the
// buffers that it was given to send on the connection.
func (c *connections) HandleConn(ctx context.Context, of stats.ConnStats) {
	if _, end := of.(*stats.ConnEnd); end {
		of := ConnectionOf(ctx)
		of.end()
		c.ended(of)
	}
}

// TagRPC implements stats.Handler.
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (*connections) HandleRPC(context.Context, stats.RPCStats) {}

// HostOf returns the host of an address; "" for Unix domain sockets.
func HostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	return host
}
