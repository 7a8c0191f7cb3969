package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/flight/local"
	"github.com/penstock/penstock/flight/local/localtest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/segment"
)

// localHost is a server with a local socket, and what its segments take.
type localHost struct {
	*served
	lender *segment.Lender
	path   string
}

func serveLocal(t *testing.T, limit int64, options Options) *localHost {
	t.Helper()
	h := &localHost{lender: segment.NewLender(nil, limit)}
	options.Local = local.New(h.lender, time.Now, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		options.Local.Close()
		require.Eventually(t, func() bool { return h.lender.Stats().Lent == 0 }, 10*time.Second, time.Millisecond)
		h.lender.Close()
	})
	h.path = localtest.Serve(t, options.Local.Serve)
	options.LocalSocket = h.path
	h.served = serve(t, options)
	return h
}

// near is a client's session, whose failures end the test.
type near struct {
	*localtest.SessionClient
	t *testing.T
}

func (h *localHost) near(t *testing.T) *near {
	t.Helper()
	c, err := localtest.Open(h.path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &near{c, t}
}

func (n *near) record(kind, number uint32) {
	n.t.Helper()
	require.NoError(n.t, n.Report([2]uint32{kind, number}))
}

// mappedMessage is the app_metadata of a stream's message, in any form.
type mappedMessage struct {
	Delivery uint32
	Bytes    int
	Cursor   json.RawMessage
	Report   json.RawMessage
}

// open begins a stream in a session.
func (h *localHost) open(t *testing.T, session, query string) arrowflight.FlightService_DoGetClient {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "penstock-session", session)
	stream, err := h.DoGet(ctx, h.ticket(t, query))
	require.NoError(t, err)
	m, err := stream.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, m.GetDataHeader(), "of the schema")
	return stream
}

// sessionOf returns the sessions that the answer of a stream names.
func sessionOf(t *testing.T, stream arrowflight.FlightService_DoGetClient) []string {
	t.Helper()
	headers, err := stream.Header()
	require.NoError(t, err)
	return headers.Get(headerSession)
}

// next returns the next message of a stream without a body; ok is false at its end.
func next(t *testing.T, stream arrowflight.FlightService_DoGetClient) (said mappedMessage, m *arrowflight.FlightData, ok bool) {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		require.ErrorIs(t, err, io.EOF)
		return said, nil, false
	}
	require.NoError(t, json.Unmarshal(m.GetAppMetadata(), &said))
	return said, m, true
}

// batch returns the rows of a delivery, and checks its file.
func (n *near) batch(said mappedMessage) (schema *arrow.Schema, rows [][]any) {
	n.t.Helper()
	number, got, err := n.Receive()
	require.NoError(n.t, err)
	defer func() { require.NoError(n.t, got.Close()) }()
	require.Equal(n.t, said.Delivery, number)
	reader, err := ipc.NewReader(bytes.NewReader(got.Memory()[:said.Bytes]))
	require.NoError(n.t, err)
	defer reader.Release()
	require.True(n.t, reader.Next())
	require.NoError(n.t, scenario.CheckCategories(reader.RecordBatch()))
	rows = scenario.Values(reader.RecordBatch())
	require.False(n.t, reader.Next())
	require.NoError(n.t, reader.Err())
	return reader.Schema(), rows
}

// TestMappedStreamsEqualThoseOfTheNetwork reads each form in a session and without one.
//
// spec: local-1, local-3, local-4, local-7, local-10
func TestMappedStreamsEqualThoseOfTheNetwork(t *testing.T) {
	t.Parallel()
	h := serveLocal(t, 1<<30, Options{Loader: newWorld(t).loader()})
	category := `plain", "columns": [{"column": "country", "as": "category"}, "item", {"column": "request_id", "as": "category"}], "tail": "keep`
	for _, wire := range []string{"plain", "indexed", "auto", category} {
		query := `{"dataset":"homefeed","batch_rows":4,"lanes":2,"wire":"` + wire + `"}`
		answer, err := h.GetFlightInfo(t.Context(), flighttest.Command(query))
		require.NoError(t, err)
		require.Equal(t, h.path, summaryOf(t, answer).LocalSocket)
		want := h.readAll(t, query)[0]
		n := h.near(t)
		stream := h.open(t, n.ID, query)
		var rows [][]any
		var cursors []string
		var report json.RawMessage
		for {
			said, m, ok := next(t, stream)
			if !ok {
				break
			}
			require.Empty(t, m.GetDataHeader())
			require.Empty(t, m.GetDataBody())
			if said.Report != nil {
				report = said.Report
				continue
			}
			schema, some := n.batch(said)
			require.True(t, schema.Equal(want.schema), wire)
			rows, cursors = append(rows, some...), append(cursors, string(said.Cursor))
			n.record(localtest.Returned, said.Delivery)
		}
		require.Equal(t, want.rows, rows, wire)
		require.Len(t, cursors, len(want.cursors))
		for i, c := range want.cursors {
			require.JSONEq(t, string(c), cursors[i])
		}
		require.NotNil(t, report)
		require.Eventually(t, func() bool { return h.lender.Stats() == segment.LenderStats{Free: h.lender.Stats().Free} }, 10*time.Second, time.Millisecond)
	}
	require.LessOrEqual(t, h.lender.Stats().Free, int64(4*64<<10), "batches were in the memory of those before")
}

// A session that does not exist, or that another stream has, leaves the stream on the network. The
// answer names the session only if the stream uses it.
//
// spec: local-3, local-23
func TestUnknownSessionsHaveNoEffect(t *testing.T) {
	t.Parallel()
	h := serveLocal(t, 1<<30, Options{Loader: newWorld(t).loader()})
	n := h.near(t)
	query := `{"dataset":"homefeed","wire":"plain"}`
	first := h.open(t, n.ID, query)
	for _, id := range []string{"", "nobody", n.ID} {
		stream := h.open(t, id, query)
		_, m, ok := next(t, stream)
		require.True(t, ok)
		require.NotEmpty(t, m.GetDataBody(), id)
		require.Empty(t, sessionOf(t, stream), id)
	}
	require.Equal(t, []string{n.ID}, sessionOf(t, first))
	said, _, _ := next(t, first)
	require.Equal(t, uint32(1), said.Delivery)
}

// When the lender has no room, and after the session's end, batches come over the network.
//
// spec: local-8, local-12
func TestBatchesWithoutRoomComeOverTheNetwork(t *testing.T) {
	t.Parallel()
	const room = 3
	h := serveLocal(t, room*64<<10, Options{Loader: newWorld(t).loader()})
	for name, ends := range map[string]bool{"the lender is empty": false, "the session ends": true} {
		t.Run(name, func(t *testing.T) {
			query := `{"dataset":"homefeed","batch_rows":1,"wire":"plain"}`
			n := h.near(t)
			stream := h.open(t, n.ID, query)
			mapped, sent := 0, 0
			for {
				said, m, ok := next(t, stream)
				if !ok {
					break
				}
				switch {
				case said.Delivery > 0 && ends && mapped >= 2:
					mapped++ // sent before the server knew
				case said.Delivery > 0:
					n.batch(said)
					n.record(localtest.Seen, said.Delivery)
					mapped++
					if ends && mapped == 2 {
						require.NoError(t, n.Close())
					}
				case said.Report == nil:
					require.NotEmpty(t, m.GetDataHeader())
					sent++
				}
			}
			rows := len(h.readAll(t, query)[0].rows)
			require.Equal(t, rows, mapped+sent)
			require.Positive(t, sent)
			require.LessOrEqual(t, mapped, 2+4)
			if !ends {
				require.Equal(t, room, mapped)
				require.NoError(t, n.Close())
			}
			require.Eventually(t, func() bool { return h.lender.Stats().Lent == 0 }, 10*time.Second, time.Millisecond)
		})
	}
}

// A client that reads no message gets four, and the rest once it has seen them.
//
// spec: local-9
func TestUnseenBatchesHoldTheirStreamUp(t *testing.T) {
	t.Parallel()
	h := serveLocal(t, 1<<30, Options{Loader: newWorld(t).loader()})
	n := h.near(t)
	stream := h.open(t, n.ID, `{"dataset":"homefeed","batch_rows":1,"wire":"plain"}`)
	require.Eventually(t, func() bool { return h.lender.Stats().Lent == 4*64<<10 }, 10*time.Second, time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	require.Equal(t, int64(4*64<<10), h.lender.Stats().Lent)
	n.record(localtest.Seen, 2)
	require.Eventually(t, func() bool { return h.lender.Stats().Lent == 5*64<<10 }, 10*time.Second, time.Millisecond)
	for number := uint32(1); ; number++ {
		said, _, ok := next(t, stream)
		require.True(t, ok)
		if said.Report != nil {
			return
		}
		require.Equal(t, number, said.Delivery)
		n.batch(said)
		n.record(localtest.Returned, number)
	}
}

// Streams that send the same batch have one segment, which is lent until the batch and all clients
// have released it.
func TestStreamsShareTheSegmentOfABatch(t *testing.T) {
	t.Parallel()
	lender := segment.NewLender(nil, 1<<30)
	defer lender.Close()
	server := New(Options{Clock: time.Now, Local: local.New(lender, time.Now, slog.New(slog.DiscardHandler))})
	held, err := budget.New(1<<20).Reserve("test", 1000)
	require.NoError(t, err)
	b := batch.NewCharged(numbers(1000), held)
	var all []*segmentBatch
	for range 2 {
		o := &streamSender{Server: server}
		lease := frames.NewBatchLease(b, nil, server.encodings)
		in, err := o.segmentOf(frames.NewEncoder(b.Schema()), b, lease)
		require.NoError(t, err)
		lease.Release()
		all = append(all, in)
	}
	require.Same(t, all[0], all[1])
	one := lender.Stats().Lent
	require.Positive(t, one)
	all[0].loan.Release()
	require.Equal(t, one, lender.Stats().Lent)
	all[1].loan.Release()
	require.Equal(t, segment.LenderStats{Kept: one}, lender.Stats())
	lease := frames.NewBatchLease(b, nil, server.encodings)
	again, err := (&streamSender{Server: server}).segmentOf(frames.NewEncoder(b.Schema()), b, lease)
	require.NoError(t, err)
	require.Same(t, all[0], again)
	lease.Release()
	b.Release()
	require.Equal(t, one, lender.Stats().Lent)
	again.loan.Release()
	require.Equal(t, segment.LenderStats{Free: one}, lender.Stats())
}

// A stream that waits for its client to see batches ends with its call.
func TestWaitingForAClientEndsWithTheCall(t *testing.T) {
	t.Parallel()
	h := serveLocal(t, 1<<30, Options{Loader: newWorld(t).loader()})
	n := h.near(t)
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "penstock-session", n.ID))
	_, err := h.DoGet(ctx, h.ticket(t, `{"dataset":"homefeed","batch_rows":1,"wire":"plain"}`))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return h.lender.Stats().Lent == 4*64<<10 }, 10*time.Second, time.Millisecond)
	cancel()
	require.Equal(t, "cancelled", (<-h.ended).End)
}
