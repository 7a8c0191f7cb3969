package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
)

// gated is a stream each of whose batches waits for a turn. It sends to waits before it waits.
type gated struct {
	loader.Stream
	waits chan<- struct{}
	turn  <-chan struct{}
}

func (g gated) Next() bool {
	g.waits <- struct{}{}
	<-g.turn
	return g.Stream.Next()
}

// serveGated serves tables in memory. Each batch waits for a turn. A stream that waits has looked whether the server shuts down, and
// reads this batch in any case.
func serveGated(t *testing.T, options Options) (s *served, turn chan struct{}, waits <-chan struct{}) {
	w, begun := newWorld(t), make(chan struct{}, 2*trainingRows)
	turn = make(chan struct{}, trainingRows)
	all := w.loader()
	options.Loader = altered{Loader: all, open: func(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error) {
		source, err := all.Open(ctx, p, o)
		if err != nil {
			return nil, err
		}
		return gated{source, begun, turn}, nil
	}}
	return serve(t, options), turn, begun
}

// movingReader reads the messages of a stream of a client that sends headerMoves.
type movingReader struct {
	arrowflight.FlightService_DoGetClient
	got   got
	moved *moved
}

// Recv keeps the message moved, after which only the end may come.
func (r *movingReader) Recv() (*arrowflight.FlightData, error) {
	m, err := r.FlightService_DoGetClient.Recv()
	var last struct {
		Moved *moved `json:"moved"`
	}
	switch {
	case err != nil:
		return nil, err
	case r.moved != nil:
		return nil, errors.New("a message follows the message moved")
	case len(m.GetDataHeader()) > 0:
		if metadata := m.GetAppMetadata(); len(metadata) > 0 {
			r.got.cursors = append(r.got.cursors, metadata)
		}
		return m, nil
	}
	if err := json.Unmarshal(m.GetAppMetadata(), &last); err != nil || last.Moved == nil {
		return nil, fmt.Errorf("the last message is %s", m.GetAppMetadata())
	}
	r.moved = last.Moved
	return r.Recv()
}

// getMoving redeems a ticket as a client that sends headerMoves with the given value.
func (s *served) getMoving(t *testing.T, ticket *arrowflight.Ticket, value string) *movingReader {
	t.Helper()
	stream, err := s.DoGet(metadata.AppendToOutgoingContext(t.Context(), headerMoves, value), ticket)
	require.NoError(t, err)
	return &movingReader{FlightService_DoGetClient: stream}
}

// A server that shuts down ends the stream of a client that understands it after the current batch,
// with the cursor. A query with this cursor returns the other rows, on another server.
//
// spec: wire-55, wire-56
func TestStreamsMove(t *testing.T) {
	const query = `{"dataset": "homefeed", "batch_rows": 100, "lanes": 2}`
	s, turn, waits := serveGated(t, Options{})
	stream := s.getMoving(t, s.ticket(t, query), movesForm)
	reader, err := arrowflight.NewRecordReader(stream)
	require.NoError(t, err)
	defer reader.Release()
	var rows [][]any
	keep := func(b arrow.RecordBatch) { rows = append(rows, scenario.Values(b)...) }
	for range 2 {
		turn <- struct{}{}
		require.True(t, reader.Next())
		keep(reader.RecordBatch())
	}
	for range 3 { // until it reads its third batch
		<-waits
	}
	var shut sync.WaitGroup
	shut.Go(func() { require.NoError(t, s.server.Shutdown(context.Background())) })
	<-s.server.draining
	turn <- struct{}{} // the current batch
	require.True(t, reader.Next())
	keep(reader.RecordBatch())
	require.False(t, reader.Next())
	if err := reader.Err(); err != nil {
		require.ErrorIs(t, err, io.EOF)
	}
	shut.Wait()
	require.EqualValues(t, 3, stream.moved.Batches)
	require.JSONEq(t, string(stream.got.cursors[2]), string(stream.moved.Cursor))
	end := <-s.ended
	require.Equal(t, endMoved, end.End)
	require.EqualValues(t, 3, end.Batches)

	another := serveWorld(t, Options{})
	whole := another.readAll(t, query)[0]
	for _, one := range another.readAll(t, fmt.Sprintf(`{"dataset": "homefeed", "batch_rows": 100, "cursor": %s}`, stream.moved.Cursor)) {
		rows = append(rows, one.rows...)
	}
	require.Equal(t, whole.rows, rows)
}

// A stream that has sent no batch moves without a cursor.
//
// spec: wire-56
func TestStreamsMoveBeforeTheirFirstBatch(t *testing.T) {
	all, opening, gate := newWorld(t).loader(), make(chan struct{}), make(chan struct{})
	s := serve(t, Options{Loader: altered{Loader: all, open: func(ctx context.Context, p loader.Planned, o loader.StreamOptions) (loader.Stream, error) {
		close(opening)
		<-gate
		return all.Open(ctx, p, o)
	}}})
	stream := s.getMoving(t, s.ticket(t, `{"dataset": "homefeed"}`), movesForm)
	<-opening
	var shut sync.WaitGroup
	shut.Go(func() { require.NoError(t, s.server.Shutdown(context.Background())) })
	<-s.server.draining
	close(gate)
	_, err := stream.Recv()
	require.NoError(t, err, "the schema")
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, &moved{}, stream.moved)
	shut.Wait()
}

// For clients that send no header, or another value, the stream continues until its report.
//
// spec: wire-55
func TestStreamsOfOtherClientsDoNotMove(t *testing.T) {
	for _, value := range []string{"", "2"} {
		s, turn, _ := serveGated(t, Options{})
		ctx := t.Context()
		if value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, headerMoves, value)
		}
		stream, err := s.DoGet(ctx, s.ticket(t, `{"dataset": "homefeed", "batch_rows": 100}`))
		require.NoError(t, err)
		g := got{}
		_, err = peeled{stream, &g}.Recv()
		require.NoError(t, err)
		var shut sync.WaitGroup
		shut.Go(func() { require.NoError(t, s.server.Shutdown(context.Background())) })
		<-s.server.draining
		close(turn)
		for err == nil {
			_, err = peeled{stream, &g}.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
		require.EqualValues(t, trainingRows, g.report.Rows)
		require.Equal(t, "ok", (<-s.ended).End)
		shut.Wait()
	}
}

// A server that shuts down refuses new calls on connections that are still open.
//
// spec: wire-57
func TestServersThatShutDownRefuseCalls(t *testing.T) {
	s, turn, _ := serveGated(t, Options{})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	stream, err := s.DoGet(t.Context(), ticket)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	s.server.drain() // as Shutdown does before it closes connections
	_, code, d := s.getFailure(t, ticket)
	require.Equal(t, codes.Unavailable, code)
	require.Equal(t, "the server is shutting down", d.Message)
	code, d = s.flightInfoFailure(t, flighttest.Command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Unavailable, code)
	require.Contains(t, d.Remedy, "another server")
	close(turn)
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, io.EOF, err, status.Code(err))
}
