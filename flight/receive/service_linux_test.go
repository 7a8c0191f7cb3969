package receive

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/flight/rawclient"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	location = "grpc://elsewhere:1"
	// plan is a tensor plan for the column id alone.
	plan = `{"plan": {"columns": [{"name": "id", "form": "values", "source": "int64", "conversion": "same", "dtype": "int64", "nulls": "corrupt"}]}}`
	// header is the number of bytes of a block before its first tensor.
	header = 256
)

// upstream is a server whose streams a test writes.
type upstream struct {
	arrowflight.BaseFlightServer
	get func(ticket string, to arrowflight.FlightService_DoGetServer) error
}

// DoGet implements arrowflight.FlightServer.
func (u *upstream) DoGet(ticket *arrowflight.Ticket, to arrowflight.FlightService_DoGetServer) error {
	return u.get(string(ticket.GetTicket()), to)
}

// host is a receiver, with the server that it reads from.
type host struct {
	t       *testing.T
	client  arrowflight.Client
	address string // for calls
	path    string // for sessions
	service *Service
	budget  *budget.Budget
	lender  *segment.Lender
}

// serveOn serves on a new address, until the test ends.
func serveOn(t *testing.T, server *grpc.Server) (address string) {
	t.Helper()
	on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(on) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	return on.Addr().String()
}

// newHost starts a receiver of a budget. get writes the streams of its server.
func newHost(t *testing.T, memory int64, get func(ticket string, to arrowflight.FlightService_DoGetServer) error, stall ...time.Duration) *host {
	t.Helper()
	server := grpc.NewServer()
	arrowflight.RegisterFlightServiceServer(server, &upstream{get: get})
	h := &host{t: t, budget: budget.New(memory)}
	h.lender = segment.NewLender(h.budget, memory)
	log := slog.New(slog.DiscardHandler)
	sessions := local.New(h.lender, time.Now, log)
	t.Cleanup(func() {
		sessions.Close()
		require.Eventually(t, func() bool { return h.budget.Used() == 0 }, 10*time.Second, time.Millisecond)
	})
	h.path = localtest.Serve(t, sessions.Serve)
	up := Upstream{Target: serveOn(t, server), Credentials: insecure.NewCredentials()}
	service := New(Options{Upstreams: map[string]Upstream{location: up}, Sessions: sessions, Budget: h.budget, Logger: log, StallTimeout: append(stall, 0)[0]})
	h.address, h.service = serveOn(t, service.Server()), service
	client, err := arrowflight.NewClientWithMiddleware(h.address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	h.client = client
	return h
}

// session begins a session with a tensor plan.
func (h *host) session(text string) *blockClient {
	h.t.Helper()
	c, err := localtest.Open(h.path)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = c.Close() })
	require.NoError(h.t, c.SendPlan([]byte(text)))
	return &blockClient{SessionClient: c, t: h.t}
}

// get begins a stream with headers.
func (h *host) get(headers ...string) arrowflight.FlightService_DoGetClient {
	h.t.Helper()
	stream, err := h.client.DoGet(metadata.AppendToOutgoingContext(h.t.Context(), headers...), &arrowflight.Ticket{Ticket: []byte("ticket")})
	require.NoError(h.t, err)
	return stream
}

// blockClient reads the blocks of a stream.
type blockClient struct {
	*localtest.SessionClient
	t    *testing.T
	ring []byte
}

// next returns the next packet, and the numbers and the cursor of its block.
func (c *blockClient) next() (p localtest.BlockPacket, ids []int64, cursor string) {
	c.t.Helper()
	p, passed, err := c.ReceiveBlock(c.ring == nil)
	require.NoError(c.t, err)
	if passed != nil {
		c.ring = passed.Memory()
		c.t.Cleanup(func() { require.NoError(c.t, passed.Close()) })
	}
	if p.Kind == localtest.Message {
		return p, nil, ""
	}
	block := c.ring[p.Offset:][:p.Bytes]
	for at := range int(p.Rows) {
		ids = append(ids, int64(binary.LittleEndian.Uint64(block[header+8*at:]))) //nolint:gosec // that number
	}
	return p, ids, string(c.ring[p.Offset+p.Bytes:][:p.Cursor])
}

// announced receives the packet before a message.
func (c *blockClient) announced() {
	c.t.Helper()
	p, _, err := c.ReceiveBlock(false)
	require.NoError(c.t, err)
	require.Equal(c.t, uint32(localtest.Message), p.Kind)
}

// numbers returns a batch of one column of numbers.
func numbers(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil))
	defer b.Release()
	for n := from; n < to; n++ {
		b.Field(0).(*array.Int64Builder).Append(int64(n)) //nolint:forcetypeassert // the schema above
	}
	return b.NewRecordBatch()
}

// write writes batches with cursors, and a report.
func write(to arrowflight.FlightService_DoGetServer, batches ...arrow.RecordBatch) error {
	w := arrowflight.NewRecordWriter(to, ipc.WithSchema(batches[0].Schema()))
	for i, b := range batches {
		if err := w.WriteWithAppMetadata(b, fmt.Appendf(nil, `{"step": %d}`, i+1)); err != nil {
			return err
		}
	}
	return w.WriteMetadata([]byte(`{"report": {}}`))
}

// A stream of another server comes as blocks. Its schema, report, headers and trailers come as the
// server sent them. The server gets the ticket, and the headers of the call.
//
// spec: receiver-4, receiver-5, receiver-6
func TestStreamsComeAsBlocks(t *testing.T) {
	h := newHost(t, 1<<30, func(ticket string, to arrowflight.FlightService_DoGetServer) error {
		headers, _ := metadata.FromIncomingContext(to.Context())
		if ticket != "ticket" || headers.Get("authorization")[0] != "Bearer a" || headers.Get("x-team")[0] != "b" || headers.Get(headerReceiver)[0] != "1" || len(headers.Get(HeaderSession))+len(headers.Get(HeaderServer)) > 0 {
			return status.Error(codes.InvalidArgument, "headers or ticket")
		}
		to.SetTrailer(metadata.Pairs("penstock-late", "2", TrailerKey, "as if it were the receiver"))
		if err := to.SetHeader(metadata.Pairs("penstock-version", "1", HeaderSession, "another")); err != nil {
			return err
		}
		return write(to, numbers(0, 3), numbers(3, 5))
	})
	c := h.session(plan)
	stream := h.get(HeaderSession, c.ID, HeaderServer, location, "authorization", "Bearer a", "x-team", "b")
	m, err := stream.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, m.GetDataHeader(), "of the schema")
	headers, err := stream.Header()
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, headers.Get("penstock-version"))
	require.Equal(t, []string{c.ID}, headers.Get(HeaderSession))
	for n, want := range [][]int64{{0, 1, 2}, {3, 4}} {
		p, ids, cursor := c.next()
		require.Equal(t, want, ids)
		require.Equal(t, fmt.Sprintf(`{"step": %d}`, n+1), cursor)
		require.Equal(t, uint64(n+1), p.Step)
		require.NoError(t, c.Report([2]uint32{localtest.Returned, p.Number}))
	}
	c.announced()
	m, err = stream.Recv()
	require.NoError(t, err)
	require.JSONEq(t, `{"report": {}}`, string(m.GetAppMetadata()))
	_, err = stream.Recv()
	require.Error(t, err)
	require.Equal(t, []string{"2"}, stream.Trailer().Get("penstock-late"))
	require.Empty(t, stream.Trailer().Get(TrailerKey))
	require.NoError(t, c.Close())
}

// Batches come as the server sent them if the plan does not fit, and if the client holds all slots.
//
// spec: receiver-7
func TestBatchesThatCannotBecomeBlocksComeAsTheyAre(t *testing.T) {
	var all []arrow.RecordBatch
	for n := range 12 {
		all = append(all, numbers(n, n+1))
	}
	h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error { return write(to, all...) })
	for text, blocks := range map[string]int{plan: 8, `{"plan": {"columns": []}}`: 0, "PTB": 0} {
		c := h.session(text)
		r, err := arrowflight.NewRecordReader(h.get(HeaderSession, c.ID, HeaderServer, location))
		require.NoError(t, err)
		for n := range all {
			if n < blocks {
				p, ids, _ := c.next()
				require.Equal(t, []int64{int64(n)}, ids)
				require.NoError(t, c.Report([2]uint32{localtest.Seen, p.Number}))
				continue
			}
			c.announced()
			require.True(t, r.Next(), "%v", r.Err())
			require.True(t, array.RecordEqual(all[n], r.RecordBatch()))
			require.Equal(t, fmt.Sprintf(`{"step": %d}`, n+1), string(r.LatestAppMetadata()))
		}
		c.announced()
		r.Release()
		require.NoError(t, c.Close())
	}
}

// The failure of a server comes with its status and details.
//
// spec: receiver-6
func TestFailuresComeAsTheServerSentThem(t *testing.T) {
	h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error {
		to.SetTrailer(metadata.Pairs(failure.TrailerKey, `{"kind": "unauthenticated"}`))
		return status.Error(codes.Unauthenticated, "the token is unknown")
	})
	c := h.session(plan)
	stream := h.get(HeaderSession, c.ID, HeaderServer, location)
	_, err := stream.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, "the token is unknown")
	require.Equal(t, []string{`{"kind": "unauthenticated"}`}, stream.Trailer().Get(failure.TrailerKey))
	require.Empty(t, stream.Trailer().Get(TrailerKey))
	c.announced()
}

// A receiver refuses calls for servers that it was not started for, calls without a session, and
// streams that exceed its memory. The client learns that the server is not the cause.
//
// spec: receiver-3, receiver-9, receiver-10
func TestReceiversRefuse(t *testing.T) {
	h := newHost(t, 16<<20, func(string, arrowflight.FlightService_DoGetServer) error {
		return status.Error(codes.Internal, "nothing should come here")
	})
	for name, headers := range map[string][]string{
		"another server": {HeaderSession, h.session(plan).ID, HeaderServer, "grpc://other:1"},
		"no server":      {HeaderSession, h.session(plan).ID},
		"no session":     {HeaderServer, location},
		"no memory":      {HeaderSession, h.session(plan).ID, HeaderServer, location},
	} {
		stream := h.get(headers...)
		_, err := stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err), name)
		require.NotEmpty(t, stream.Trailer().Get(TrailerKey), name)
	}
}

// A server that accepts connections and says nothing, like a proxy without a way to the server, holds
// up no client. The client learns the reason, and reads without the receiver.
//
// spec: receiver-10
func TestServersThatDoNotAnswer(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close() //nolint:errcheck // the test has ended
	h := newHost(t, 1<<30, nil)
	h.service.Upstreams[location] = Upstream{Target: silent.Addr().String(), Credentials: insecure.NewCredentials()}
	h.service.ConnectTimeout = time.Millisecond
	c := h.session(plan)
	stream := h.get(HeaderSession, c.ID, HeaderServer, location)
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, stream.Trailer().Get(TrailerKey)[0], "was not connected within 1ms")
	c.announced()
}

// A client chooses one of the addresses of a server's name. The server is asked for by its name, and an
// address that the name does not have here is refused.
//
// spec: replicas-3
func TestServersWithSeveralAddresses(t *testing.T) {
	for address, reason := range map[string]string{"127.0.0.1": "", "127.0.0.2": "127.0.0.2 is no address of trainers here"} {
		var authority []string
		h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error {
			headers, _ := metadata.FromIncomingContext(to.Context())
			authority = headers.Get(":authority")
			require.Empty(t, headers.Get(HeaderAddress))
			return status.Error(codes.NotFound, "no such ticket")
		})
		_, port, err := net.SplitHostPort(h.service.Upstreams[location].Target)
		require.NoError(t, err)
		h.service.Upstreams[location] = Upstream{Target: "trainers:" + port, Credentials: insecure.NewCredentials()}
		h.service.LookupHost = func(_ context.Context, host string) ([]string, error) {
			require.Equal(t, "trainers", host)
			return []string{"127.0.0.1", "127.0.0.3"}, nil
		}
		stream := h.get(HeaderSession, h.session(plan).ID, HeaderServer, location, HeaderAddress, address)
		_, err = stream.Recv()
		if reason == "" {
			require.Equal(t, codes.NotFound, status.Code(err))
			require.Equal(t, []string{"trainers:" + port}, authority)
			continue
		}
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Contains(t, stream.Trailer().Get(TrailerKey)[0], reason)
	}
}

// panicsOnce is a log whose first record panics.
type panicsOnce struct {
	slog.Handler
	once *sync.Once
}

// Enabled implements slog.Handler.
func (p panicsOnce) Enabled(context.Context, slog.Level) bool {
	p.once.Do(func() { panic("the stream of one process") })
	return false
}

// WithAttrs implements slog.Handler.
func (p panicsOnce) WithAttrs([]slog.Attr) slog.Handler { return p }

// A panic in one stream does not end the receiver. The client of this stream reads from the server.
//
// spec: receiver-10
func TestPanicsEndOneStream(t *testing.T) {
	h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error { return write(to, numbers(0, 1)) })
	h.service.Logger = slog.New(panicsOnce{slog.DiscardHandler, new(sync.Once)})
	for _, want := range []codes.Code{codes.Unavailable, codes.OK} {
		c := h.session(plan)
		stream := h.get(HeaderSession, c.ID, HeaderServer, location)
		_, err := stream.Recv()
		require.NoError(t, err)
		_, ids, _ := c.next()
		require.Equal(t, []int64{0}, ids)
		c.announced()
		_, err = stream.Recv()
		require.NoError(t, err)
		_, err = stream.Recv()
		if want == codes.OK {
			require.ErrorIs(t, err, io.EOF)
			continue
		}
		require.Equal(t, want, status.Code(err))
		require.Contains(t, stream.Trailer().Get(TrailerKey)[0], "the stream of one process")
	}
}

// A stream whose first batch exceeds the usual limit begins again, with a larger one: its rows come
// once.
func TestStreamsOfLargeBatches(t *testing.T) {
	begun := 0
	h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error {
		begun++
		return write(to, numbers(0, firstLimit/8+1))
	})
	c := h.session(plan)
	stream := h.get(HeaderSession, c.ID, HeaderServer, location)
	_, err := stream.Recv()
	require.NoError(t, err)
	p, ids, _ := c.next()
	require.Len(t, ids, firstLimit/8+1)
	require.Equal(t, 2, begun)
	require.NoError(t, c.Report([2]uint32{localtest.Returned, p.Number}))
	c.announced()
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// A stream that begins again has the schema that was passed on. Otherwise, the client reads from the server.
func TestStreamsThatBeginAgainWithAnotherSchema(t *testing.T) {
	begun := 0
	h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error {
		if begun++; begun == 1 {
			return write(to, numbers(0, firstLimit/8+1))
		}
		return write(to, array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "other", Type: arrow.PrimitiveTypes.Int64}}, nil), numbers(0, 1).Columns(), 1))
	})
	c := h.session(plan)
	stream := h.get(HeaderSession, c.ID, HeaderServer, location)
	_, err := stream.Recv()
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, stream.Trailer().Get(TrailerKey)[0], "another schema")
	require.Equal(t, 2, begun)
}

// A client that takes nothing holds up the server's stream. If the client cancels its stream or takes
// nothing for too long, the server's stream ends, too.
//
// spec: receiver-5
func TestClientsThatTakeNothing(t *testing.T) {
	for name, stall := range map[string]time.Duration{"cancels": time.Hour, "stalls": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			written, ended := 0, make(chan error, 1)
			h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error {
				w := arrowflight.NewRecordWriter(to, ipc.WithSchema(numbers(0, 1).Schema()))
				var err error
				for ; err == nil; written++ {
					err = w.WriteWithAppMetadata(numbers(0, 1<<16), fmt.Appendf(nil, `{"step": %d}`, written))
				}
				ended <- err
				return err
			}, stall)
			c := h.session(plan)
			ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), HeaderSession, c.ID, HeaderServer, location))
			defer cancel()
			stream, err := h.client.DoGet(ctx, &arrowflight.Ticket{})
			require.NoError(t, err)
			_, err = stream.Recv()
			require.NoError(t, err)
			for range 4 {
				_, ids, _ := c.next()
				require.Len(t, ids, 1<<16)
			}
			if name == "cancels" {
				cancel()
			} else {
				_, err = stream.Recv()
				require.Equal(t, codes.Unavailable, status.Code(err))
				require.Empty(t, stream.Trailer().Get(TrailerKey), "the client resumes through the receiver")
			}
			require.Error(t, <-ended)
			require.Less(t, written, 100, "batches of 512 KiB: the window has 16, and the sockets a few MiB")
			require.NoError(t, c.Close())
		})
	}
}

// A client that only takes blocks gets no messages, and checks its connection by pings. However many it
// sends, its streams continue.
func TestPingsOfClientsDoNotEndStreams(t *testing.T) {
	h := newHost(t, 1<<30, func(_ string, to arrowflight.FlightService_DoGetServer) error {
		<-to.Context().Done()
		return to.Context().Err()
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.address)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test has ended
	client, err := rawclient.New(conn)
	require.NoError(t, err)
	stream, err := client.Open("DoGet", rawclient.Header{Name: HeaderSession, Value: h.session(plan).ID}, rawclient.Header{Name: HeaderServer, Value: location})
	require.NoError(t, err)
	require.NoError(t, client.Request(stream, nil))
	for range 20 {
		require.NoError(t, client.Ping())
	}
}
