package inbound

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/penstock/penstock/flight/frames"
)

// MaxRequest is the largest request, in bytes: queries and cursors.
const MaxRequest = 2 << 20

// Limits on the resources that a server holds for requests that have not arrived. gRPC bounds each
// connection and each call; these limits bound all of them together.
const (
	maxHeaderBytes   = 16 << 10 // of a call; gRPC counts headers after decompression
	maxCalls         = 128      // at a time, of one connection
	receiveWindow    = 64 << 10 // bytes of a call that a client may send before the server reads them
	connectionWindow = 1 << 20  // bytes on the way; gRPC extends this window when bytes arrive, whether or not they are read
	handshakeTimeout = 10 * time.Second
	maxArriving      = 1024             // open calls whose request has not arrived
	maxArrivingBytes = 16 << 20         // bytes of these calls' requests that have arrived
	arrivalTimeout   = 10 * time.Second // for a request to arrive
	arrivalGrace     = time.Second      // the age up to which a call is not ended for another call of its host
	maxRefused       = 1024             // calls of a connection that have a deadline, see Connection.keep
	maxWatches       = 4                // calls of a connection that watch the health of the server: such a call never ends by itself
)

// Times that detect dead connections.
const (
	pingAfter       = time.Minute     // of silence, to detect dead hosts
	pingTimeout     = time.Minute     // a trainer that is suspended for a while must not count as dead
	minPingInterval = 2 * time.Second // between pings of a client, which come after 5 seconds of silence
)

// Options configure a Limiter.
type Options struct {
	MaxConnections int               // open at a time; 0: no limit
	HostShare      int               // percentage of MaxConnections that one host may have
	TLS            *tls.Config       // of handshakes; nil: connections are not encrypted
	Ended          func(*Connection) // is called after gRPC has released a connection
	Clock          func() time.Time  // for the log
	Ticks          func() time.Time  // for the ages of calls and for writes that wait; called from many goroutines
	Logger         *slog.Logger      // gets a line about refused connections
}

// Limiter limits the resources that a gRPC server holds for clients before their requests have
// arrived. It is safe for concurrent use.
type Limiter struct {
	connections *connections
	arrivals    *arrivals
	tls         *tls.Config
}

// New returns a Limiter of one server.
func New(o Options) *Limiter {
	l := &Limiter{
		connections: newConnections(o.MaxConnections, o.HostShare, o.Ticks, o.Ended, newRefusals(o.Logger, o.Clock).refused),
		arrivals:    newArrivals(maxArriving, o.Ticks),
		tls:         o.TLS,
	}
	l.connections.read = l.arrivals.add
	return l
}

// ServerOptions returns the options of the server: its security, its codec, its limits on each connection and call, its detection of
// dead connections, and the handler that identifies connections.
func (l *Limiter) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(transport(l.tls)),
		grpc.ForceServerCodecV2(frames.NewCodec()), // limits requests, see limitedMessage
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.InitialWindowSize(receiveWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.StatsHandler(l.connections),
	}
}

// Listener returns a listener that closes connections beyond the limits. The server serves on it.
func (l *Limiter) Listener(on net.Listener) net.Listener { return listener{on, l.connections} }

// Admit adds a call whose headers have arrived, or refuses it. The server's tap calls it with the
// call's context. It does not block.
func (l *Limiter) Admit(ctx context.Context, client string) (*Arrival, error) {
	return l.arrivals.admit(ctx, client)
}

// Receive returns the stream of an admitted call, whose first message is limited to MaxRequest
// bytes, and a function that ends it. It calls size with the bytes of this message.
func (l *Limiter) Receive(stream grpc.ServerStream, arrival *Arrival, size func(bytes int)) (_ grpc.ServerStream, done func()) {
	s := &arriving{ServerStream: stream, arrivals: l.arrivals, arrival: arrival, size: size}
	return s, s.done
}
