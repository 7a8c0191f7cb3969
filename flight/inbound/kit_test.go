package inbound

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	flightgen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/penstock/penstock/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon returns the time of the tests' clock.
func noon() time.Time { return time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC) }

// service answers each call at once, except that run may wait in GetFlightInfo.
type service struct {
	flightgen.UnimplementedFlightServiceServer
	run func()
}

// GetFlightInfo implements flightgen.FlightServiceServer.
func (s *service) GetFlightInfo(context.Context, *flightgen.FlightDescriptor) (*flightgen.FlightInfo, error) {
	s.run()
	return &flightgen.FlightInfo{}, nil
}

// GetSchema implements flightgen.FlightServiceServer.
func (*service) GetSchema(context.Context, *flightgen.FlightDescriptor) (*flightgen.SchemaResult, error) {
	return &flightgen.SchemaResult{}, nil
}

// served is a running server behind a Limiter, with a client.
type served struct {
	flightgen.FlightServiceClient
	*Limiter
	address string
	stop    func()
	sizes   chan int // of requests
}

// arrivalKey is the key of a context's call.
type arrivalKey struct{}

// serve runs a server on the loopback until the test ends. Tests may change the limits before the first call.
func serve(t *testing.T, o Options, run func()) *served {
	t.Helper()
	o.Clock = noon
	if o.Ticks == nil {
		o.Ticks = noon
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ended == nil {
		o.Ended = func(*Connection) {}
	}
	s := &served{Limiter: New(o), sizes: make(chan int, 64)}
	server := grpc.NewServer(append(s.ServerOptions(),
		grpc.WaitForHandlers(true),
		grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			p, _ := peer.FromContext(ctx)
			a, err := s.Admit(ctx, HostOf(p.Addr))
			return context.WithValue(ctx, arrivalKey{}, a), err
		}),
		grpc.StreamInterceptor(func(of any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			a, _ := stream.Context().Value(arrivalKey{}).(*Arrival)
			stream, finish := s.Receive(stream, a, func(bytes int) { s.sizes <- bytes })
			defer finish()
			return coded(next(of, stream))
		}),
	)...)
	server.RegisterService(Streams(flightgen.FlightService_ServiceDesc), &service{run: run})
	on, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = on.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.Listener(on)) }()
	s.stop = server.Stop
	s.FlightServiceClient = flightgen.NewFlightServiceClient(s.connectFrom(t, "127.0.0.1"))
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	return s
}

// coded returns the kind of a fault as a code.
func coded(err error) error {
	of := (*fault.Error)(nil)
	if !errors.As(err, &of) {
		return err
	}
	code := map[fault.Kind]codes.Code{fault.Unavailable: codes.Unavailable, fault.Invalid: codes.InvalidArgument}[of.Kind]
	return status.Error(code, err.Error())
}

// connectFrom connects from an address of the loopback.
func (s *served) connectFrom(t testing.TB, host string) *grpc.ClientConn {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return from.DialContext(ctx, "tcp", to) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// method returns the full name of a method.
func method(name string) string {
	return "/" + flightgen.FlightService_ServiceDesc.ServiceName + "/" + name
}

// openCall sends the headers of a call, without its request.
func openCall(ctx context.Context, conn *grpc.ClientConn, name string) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method(name))
}

// request returns a small request.
func request() *flightgen.FlightDescriptor { return &flightgen.FlightDescriptor{Cmd: []byte("{}")} }
