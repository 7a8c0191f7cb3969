package flight

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// Loader is what the server serves; *loader.Loader is one. The batches of its
// streams lie in memory that the Go collector finds, and do not change before
// their last release.
type Loader interface {
	Datasets() []dataset.Dataset
	Plan(ctx context.Context, query dataset.Query) (*plan.Plan, error)
	Count(ctx context.Context, p *plan.Plan, reading loader.StreamOptions, admit loader.Admit) (*dataset.Counts, error)
	Open(ctx context.Context, p *plan.Plan, reading loader.StreamOptions) (loader.Stream, error)
}

// Verifier looks at the tables of a query's dataset; *loader.Loader is one.
type Verifier interface {
	Verify(ctx context.Context, query dataset.Query) (*loader.Verification, error)
}

// Defaults of Options.
const (
	defaultLifetime   = 24 * time.Hour
	defaultRenewal    = 30 * 24 * time.Hour
	DefaultMaxMessage = 512 << 20
	// Clients take 8 KB of headers, and the details grow by a third on the way.
	defaultMaxDetails = 4096
)

// Sizes and times that nobody has had to set yet.
const (
	maxReceived = 16 << 20        // bytes of a message from a client: queries and cursors
	writeBuffer = 256 << 10       // bytes per connection; saves a tenth to a fifth of the CPU time of sending
	lastWords   = time.Second     // between ending the streams and closing the connections
	lastCalls   = 3 * time.Second // between closing the connections and going without the calls that still run
	pingAfter   = time.Minute     // of silence, to find out about hosts that are gone
	pingAnswer  = time.Minute     // a trainer that is stopped for a while must not count as gone
	pingFrom    = 5 * time.Second // how often clients may ping
)

// Options are what a Server is made of.
type Options struct {
	Loader     Loader
	Verifier   Verifier         // of the action verify; nil: it is not served
	Keys       *Keys            // sign and verify tickets
	Clock      func() time.Time // judges tickets and measures calls
	Ticks      func() time.Time // says when streams move, from many goroutines; nil: Clock
	Lifetime   time.Duration    // of tickets; 0: defaultLifetime
	Renewal    time.Duration    // how long beyond its first expiry a ticket can be renewed to last; 0: defaultRenewal
	Advertise  []string         // locations put into endpoints, as "grpc://host:port"; none: where the client asked
	MaxStreams int              // that have places; further ones wait, see admission; 0: no limit
	PeerShare  int              // the part of the places that one host may have, in percent; 0: all
	MaxMessage int              // bytes of a message to a client; 0: DefaultMaxMessage
	// MaxTransit is how many bytes batches may take that were handed to the network
	// and have not left; 0: no limit.
	MaxTransit int64
	// Pressed says whether memory was lacking since it was last asked; nil: never.
	Pressed func() bool
	// Wanted says whether streams of a host wait for others of that host to give
	// memory back; nil: never.
	Wanted func(host string) bool
	// StallTimeout is how long a client may take nothing; 0: DefaultStallTimeout.
	StallTimeout time.Duration
	MaxDetails   int          // bytes of a failure's details, as JSON; 0: what every client takes
	Version      string       // of the program, for manifests
	Logger       *slog.Logger // nil: no logs
	Observer     Observer
}

// Server is a Flight server with gRPC health checks on the same port. It is
// safe for concurrent use.
type Server struct {
	options Options
	grpc    *grpc.Server
	health  *health.Server

	draining context.Context //nolint:containedctx // ends what waits for news, such as health watches, when Shutdown begins
	drain    context.CancelFunc
	ended    context.Context //nolint:containedctx // ends all streams when Shutdown may wait no longer
	end      context.CancelCauseFunc
	left     context.Context //nolint:containedctx // ends when Shutdown goes without calls that do not end
	leave    context.CancelFunc
	patience time.Duration // lastCalls

	admission   *admission
	transit     *transit
	connections *connections

	mu      sync.Mutex
	streams int
	seats   map[*seat]struct{}

	crowded chan struct{}  // wakes who parks: somebody waits for a place
	parked  sync.WaitGroup // goroutines that park
	parks   atomic.Int64   // streams that are being parked
}

// New makes a server. It listens and starts nothing before Serve.
func New(options Options) *Server {
	if options.Lifetime == 0 {
		options.Lifetime = defaultLifetime
	}
	if options.Renewal == 0 {
		options.Renewal = defaultRenewal
	}
	if options.MaxMessage == 0 {
		options.MaxMessage = DefaultMaxMessage
	}
	if options.MaxDetails == 0 {
		options.MaxDetails = defaultMaxDetails
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if options.Pressed == nil {
		options.Pressed = func() bool { return false }
	}
	if options.Wanted == nil {
		options.Wanted = func(string) bool { return false }
	}
	if options.StallTimeout == 0 {
		options.StallTimeout = DefaultStallTimeout
	}
	if options.Ticks == nil {
		options.Ticks = options.Clock
	}
	if options.PeerShare == 0 {
		options.PeerShare = 100
	}
	options.Observer = options.Observer.quiet()
	s := &Server{options: options, health: health.NewServer(), seats: map[*seat]struct{}{}, crowded: make(chan struct{}, 1)}
	s.transit = newTransit(options.MaxTransit, options.Ticks)
	s.connections = &connections{ended: s.transit.connectionEnded, open: map[net.Addr]net.Conn{}}
	s.draining, s.drain = context.WithCancel(context.Background())
	s.ended, s.end = context.WithCancelCause(context.Background())
	s.left, s.leave = context.WithCancel(context.Background())
	s.admission = newAdmission(options.MaxStreams, options.PeerShare)
	s.admission.closing, s.admission.crowded = s.draining.Done(), s.crowded
	s.patience = lastCalls
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.WriteBufferSize(writeBuffer),
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.MaxSendMsgSize(options.MaxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingAnswer}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingFrom, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.StatsHandler(s.connections),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	)
	arrowflight.RegisterFlightServiceServer(s.grpc, &service{Server: s})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	return s
}

// Serve answers calls on a listener, which it closes, until Shutdown or a
// failure to accept. After a Shutdown it returns nil.
func (s *Server) Serve(on net.Listener) error {
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		s.watchSeats(over)
	}()
	defer func() {
		close(over)
		select {
		case <-watched:
		case <-s.left.Done():
		}
	}()
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(listener{on, s.connections}) }()
	select {
	case err := <-served:
		if err != nil && s.draining.Err() == nil {
			return fault.New(fault.Unavailable, "serve on %s: %w", on.Addr(), err)
		}
	case <-s.left.Done(): // gRPC waits for calls that Shutdown did not wait for
	}
	return nil
}

// ErrCallsLeft is inside what Shutdown returns when calls run on.
var ErrCallsLeft = errors.New("calls that do not end were left behind")

// Shutdown stops accepting connections and calls, lets the calls that run
// finish, and returns when all is quiet. When ctx ends first, the remaining
// streams end as unavailable, and Shutdown says how many those were. It returns
// within 5 seconds after ctx has ended: calls that have not ended by then run
// on, and the error is ErrCallsLeft.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.drain()
	quiet := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(quiet)
	}()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
	}
	left := s.Streams()
	s.end(endedByUs{fault.New(fault.Unavailable, "the server is shutting down").
		WithRemedy("go on with the cursor of the last batch, here after the restart or on another server")})
	// A stream whose client does not read cannot send its status; it ends with
	// its connection.
	if !within(quiet, lastWords) {
		go s.grpc.Stop()
		if !within(quiet, s.patience) {
			s.leave()
			return fault.New(fault.Unavailable, "%s ended before done, and %w", fault.Count(left, "stream"), ErrCallsLeft)
		}
	}
	if left == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "%s ended before done", fault.Count(left, "stream"))
}

// within waits for a channel to be closed, at most so long, and says whether it was.
func within(closed <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
		return true
	case <-timer.C:
		return false
	}
}

// Streams returns how many streams of batches are open now, parked ones too.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// Waiting returns how many streams wait for a place now.
func (s *Server) Waiting() int { return s.admission.waits() }

// enter opens a stream. The context it returns ends with the call, and when
// Shutdown may wait no longer; leave ends the stream, once.
func (s *Server) enter(call context.Context) (ctx context.Context, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	ctx, cancel := context.WithCancelCause(call)
	stop := context.AfterFunc(s.ended, func() { cancel(context.Cause(s.ended)) })
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	})
}
