package receive

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/flight/inbound"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/flight/silence"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// HeaderSession names the client's session, in the call and in its answer, as in a server's DoGet.
	HeaderSession = "penstock-session"
	// HeaderServer names the location of the server that redeems the ticket.
	HeaderServer = "penstock-server"
	// HeaderAddress is the IP address of this server, if the name in the location has several. The
	// name must have it here, too.
	HeaderAddress = "penstock-server-address"
	// TrailerKey is the trailer of a call that failed in the receiver and not in the server. It has
	// the reason as text.
	TrailerKey = "penstock-receiver-bin"

	// headerReceiver tells the server that a receiver reads the stream.
	headerReceiver = "penstock-receiver"

	flightService = "arrow.flight.protocol.FlightService"
	getMethod     = "/" + flightService + "/DoGet"

	// window is how many bytes a server may send before the receiver reads them.
	window = 8 << 20
	// The limit of a stream's messages is firstLimit bytes. A stream whose first batch is larger
	// begins again, with a limit that is limitGrowth times larger, up to maxLimit: the maximum of
	// servers.
	firstLimit, limitGrowth, maxLimit = 8 << 20, 8, 512 << 20
	// defaultStallTimeout is the default of Options.StallTimeout.
	defaultStallTimeout = 2 * time.Hour
)

// Upstream is a server that a receiver may connect to.
type Upstream struct {
	Target      string // the host and the port
	Address     string // the IP address to connect to, and the port; "": gRPC resolves the host
	Credentials credentials.TransportCredentials
}

// Options configure a Service.
type Options struct {
	Upstreams      map[string]Upstream // by location
	Sessions       *local.Sessions
	Budget         *budget.Budget
	Logger         *slog.Logger
	Cores          *cores.Cores  // fill blocks; nil: the goroutine of a stream fills them
	StallTimeout   time.Duration // how long a client may take nothing; 0: defaultStallTimeout
	ConnectTimeout time.Duration // how long connecting to a server may take; 0: silence.ConnectLimit

	LookupHost func(ctx context.Context, host string) ([]string, error) // nil: net.DefaultResolver.LookupHost
}

// Service receives streams. It is safe for concurrent use.
type Service struct{ Options }

// New returns a service.
func New(o Options) *Service {
	if o.StallTimeout == 0 {
		o.StallTimeout = defaultStallTimeout
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = silence.ConnectLimit
	}
	if o.LookupHost == nil {
		o.LookupHost = net.DefaultResolver.LookupHost
	}
	return &Service{o}
}

// Server returns a gRPC server with the service.
func (s *Service) Server() *grpc.Server {
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(frames.NewCodec()),
		grpc.MaxRecvMsgSize(inbound.MaxRequest),
		// Blocks are no messages, so gRPC would take the pings of a client that only reads blocks for an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 1, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: flightService, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "DoGet", ServerStreams: true, Handler: s.get}},
	}, s)
	return server
}

// get implements DoGet.
func (s *Service) get(_ any, to grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	headers, _ := metadata.FromIncomingContext(ctx)
	session, id := s.claim(headers)
	if session == nil {
		return refused(to, fault.New(fault.Invalid, "the call names no session of this receiver"))
	}
	if err := to.SetHeader(metadata.Pairs(HeaderSession, id)); err != nil {
		return err
	}
	defer session.Announce() // the end
	return s.guarded(ctx, to, func() error { return s.pass(ctx, headers, session, to) })
}

// guarded calls pass. If pass panics, the call is refused, and the calls of other processes continue.
func (s *Service) guarded(ctx context.Context, to grpc.ServerStream, pass func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			crashed := fault.Crashed("pass a stream on", value)
			var crash fault.Crash
			errors.As(crashed, &crash)
			s.Logger.ErrorContext(ctx, "a stream panicked", "error", crashed, "stack", string(crash.Stack))
			err = refused(to, crashed)
		}
	}()
	return pass()
}

// pass redeems the ticket of a call, and passes the stream on. If the first batch of the stream
// exceeds the limit of messages, pass redeems the ticket again, with a larger limit.
func (s *Service) pass(ctx context.Context, headers metadata.MD, session *local.Session, to grpc.ServerStream) error {
	var ticket raw
	if err := to.RecvMsg(&ticket); err != nil {
		return err
	}
	location := strings.Join(headers.Get(HeaderServer), "")
	upstream, known := s.Upstreams[location]
	if !known {
		return refused(to, fault.New(fault.Forbidden, "this receiver was not started for %q", location))
	}
	if address := strings.Join(headers.Get(HeaderAddress), ""); address != "" {
		var err error
		if upstream.Address, err = s.addressOf(ctx, upstream, address); err != nil {
			return refused(to, fault.As(err))
		}
	}
	ctx = metadata.NewOutgoingContext(ctx, passedOn(headers))
	one := &passing{Service: s, session: session, to: to, log: s.Logger.With(slog.String("server", location))}
	err := errOversized
	for limit := int64(firstLimit); errors.Is(err, errOversized) && !one.begun && limit <= maxLimit; limit *= limitGrowth {
		err = s.redeem(ctx, upstream, ticket, one, limit)
	}
	one.log.InfoContext(ctx, "stream ends", "batches", one.batches, "blocks", one.assembled, "error", err)
	if errors.Is(err, errOversized) {
		return refused(to, fault.New(fault.Exhausted, "a message of the server exceeds the limit of the receiver"))
	}
	return err
}

// redeem redeems a ticket, and passes on a stream of messages of at most limit bytes. Each stream has
// a connection of its own: a client that reads nothing holds up no other.
func (s *Service) redeem(ctx context.Context, at Upstream, ticket raw, one *passing, limit int64) error {
	held, err := s.Budget.Reserve("the messages of a stream", rowsin.ServedMemory(limit)+window)
	if err != nil {
		return refused(one.to, fault.As(err))
	}
	defer held.Release()
	options := append(silence.DialOptions(),
		grpc.WithTransportCredentials(at.Credentials),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
	)
	target := at.Target
	if at.Address != "" {
		target = at.Address
		// The certificate is that of the host. The client has resolved the host, so it connects without a proxy.
		options = append(options, grpc.WithAuthority(at.Target), grpc.WithNoProxy())
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return refused(one.to, fault.New(fault.Internal, "connect: %w", err))
	}
	defer conn.Close() //nolint:errcheck // this ends the stream, if it has not ended
	late := fault.New(fault.Unavailable, "%s was not connected within %s", target, s.ConnectTimeout)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	timer := time.AfterFunc(s.ConnectTimeout, func() { end(late) }) // gRPC has no limit for the answer of a proxy
	from, err := conn.NewStream(
		ctx, &grpc.StreamDesc{ServerStreams: true}, getMethod,
		grpc.ForceCodecV2(frames.NewCodec()), grpc.MaxCallRecvMsgSize(int(limit)),
	)
	if !timer.Stop() {
		return refused(one.to, late)
	}
	if err != nil {
		return status.Convert(err).Err()
	}
	if err := errors.Join(from.SendMsg(&ticket), from.CloseSend()); err != nil && !errors.Is(err, io.EOF) { // for io.EOF, RecvMsg returns the failure
		return status.Convert(err).Err()
	}
	return one.run(ctx, from, limit)
}

// addressOf returns an IP address of a server's host, with the port. Streams of other addresses are
// refused: only the servers of the start are connected to.
func (s *Service) addressOf(ctx context.Context, at Upstream, address string) (string, error) {
	host, port, err := net.SplitHostPort(at.Target)
	if err != nil {
		return "", fault.New(fault.Internal, "split %q: %w", at.Target, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
	defer cancel()
	found, err := s.LookupHost(ctx, host)
	if err != nil {
		return "", fault.New(fault.Unavailable, "resolve %s: %w", host, err)
	}
	if !slices.Contains(found, address) {
		return "", fault.New(fault.Forbidden, "%s is no address of %s here", address, host)
	}
	return net.JoinHostPort(address, port), nil
}

// claim returns the session that a call names and its id, or nil.
func (s *Service) claim(headers metadata.MD) (session *local.Session, id string) {
	ids := headers.Get(HeaderSession)
	if len(ids) != 1 {
		return nil, ""
	}
	return s.Sessions.Claim(ids[0]), ids[0]
}

// refused fails a call for a reason that the server has no part in: the client reads from the server
// without the receiver.
func refused(to grpc.ServerStream, why *fault.Error) error {
	to.SetTrailer(metadata.Pairs(TrailerKey, why.Error()))
	return status.Error(codes.Unavailable, why.Error())
}

// passedOn returns the headers that the server gets: those of the call, except headers of gRPC and
// those for the receiver; and headerReceiver.
func passedOn(headers metadata.MD) metadata.MD {
	out := metadata.MD{}
	for name, values := range headers {
		switch {
		case name == HeaderSession || name == HeaderServer || name == HeaderAddress:
		case name == "content-type" || name == "user-agent" || name == "te" || strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-"):
		default:
			out[name] = values
		}
	}
	out.Set(headerReceiver, "1")
	return out
}

// ofPenstock returns the headers or trailers of a server that are not gRPC's, except those that only the
// receiver sends.
func ofPenstock(of metadata.MD) metadata.MD {
	out := metadata.MD{}
	for name, values := range of {
		if strings.HasPrefix(name, "penstock-") && name != HeaderSession && name != TrailerKey {
			out[name] = values
		}
	}
	return out
}
