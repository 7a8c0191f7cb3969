package flight

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/internal/budget"
)

// followedHeaders returns the context of a DoGet whose client follows the stream, with the values of the headers.
func followedHeaders(ctx context.Context, moves, follow string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headerMoves, moves, headerFollow, follow)
}

// follow follows the streams of a name. It returns the first message, which is a schema, and the stream of notices.
func (s *served) follow(t *testing.T, name string) arrowflight.FlightService_DoGetClient {
	t.Helper()
	ticket, err := json.Marshal(map[string]string{"follow": name})
	require.NoError(t, err)
	stream, err := s.DoGet(t.Context(), &arrowflight.Ticket{Ticket: ticket})
	require.NoError(t, err)
	first, err := stream.Recv()
	require.NoError(t, err)
	require.NotEmpty(t, first.GetDataHeader())
	return stream
}

// nextNotice receives a notice.
func nextNotice(t *testing.T, from arrowflight.FlightService_DoGetClient) notice {
	t.Helper()
	m, err := from.Recv()
	require.NoError(t, err)
	var said struct {
		Moves *notice `json:"moves"`
	}
	require.NoError(t, json.Unmarshal(m.GetAppMetadata(), &said))
	require.NotNil(t, said.Moves)
	return *said.Moves
}

// A client that follows its streams receives where they move before it has read their batches.
//
// spec: wire-59, wire-60
func TestClientsLearnWhereStreamsMove(t *testing.T) {
	const query = `{"dataset": "homefeed", "batch_rows": 100, "lanes": 2}`
	s, turn, waits := serveGated(t, Options{})
	streams := make([]*movingReader, 2)
	for number := range streams {
		ctx := followedHeaders(t.Context(), movesForm, "ours "+string(rune('7'+number)))
		stream, err := s.DoGet(ctx, s.ticket(t, query))
		require.NoError(t, err)
		header, err := stream.Header()
		require.NoError(t, err)
		require.Equal(t, []string{"ours " + string(rune('7'+number))}, header.Get(headerFollow))
		streams[number] = &movingReader{FlightService_DoGetClient: stream}
		_, err = streams[number].Recv()
		require.NoError(t, err, "the schema")
	}
	follows, others := s.follow(t, "ours"), s.follow(t, "others")
	_, err := others.Recv()
	require.ErrorIs(t, err, io.EOF, "streams of other names are not followed")
	for range streams { // until each reads its first batch
		<-waits
	}
	var shut sync.WaitGroup
	shut.Go(func() { require.NoError(t, s.server.Shutdown(context.Background())) })
	<-s.server.draining
	turn <- struct{}{} // each stream reads its current batch
	turn <- struct{}{}
	told := map[int64]notice{}
	for range streams {
		one := nextNotice(t, follows)
		told[one.Stream] = one
	}
	_, err = follows.Recv()
	require.ErrorIs(t, err, io.EOF)
	for number, stream := range streams {
		for err = nil; err == nil; {
			_, err = stream.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
		at := told[int64(7+number)]
		require.EqualValues(t, 1, at.Batches)
		require.Equal(t, *stream.moved, at.moved)
	}
	shut.Wait()
}

// A call that follows streams ends when they have ended.
//
// spec: wire-60
func TestFollowingEndsWithTheStreams(t *testing.T) {
	s, turn, _ := serveGated(t, Options{})
	stream, err := s.DoGet(followedHeaders(t.Context(), movesForm, "ours 1"), s.ticket(t, `{"dataset": "homefeed"}`))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	follows := s.follow(t, "ours")
	close(turn)
	for err == nil {
		_, err = stream.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
	_, err = follows.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Empty(t, s.server.followers.all)
}

// At most one call follows the streams of a name. Its memory is charged until it ends.
//
// spec: wire-63
func TestOneCallFollowsTheStreamsOfAName(t *testing.T) {
	b := budget.New(1 << 20)
	s, turn, _ := serveGated(t, Options{Budget: b})
	stream, err := s.DoGet(followedHeaders(t.Context(), movesForm, "ours 1"), s.ticket(t, `{"dataset": "homefeed"}`))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	follows := s.follow(t, "ours")
	for range 20 {
		before := follows
		follows = s.follow(t, "ours")
		_, err = before.Recv()
		require.ErrorIs(t, err, io.EOF)
	}
	require.Eventually(t, func() bool { return b.Used() == followBytes }, time.Minute, time.Millisecond)
	rest, err := b.Reserve("the test", b.Limit()-b.Used())
	require.NoError(t, err)
	_, code, _ := s.getFailure(t, &arrowflight.Ticket{Ticket: []byte(`{"follow": "ours"}`)})
	require.Equal(t, codes.ResourceExhausted, code)
	rest.Release()
	close(turn)
	for err = nil; err == nil; {
		_, err = stream.Recv()
	}
	require.ErrorIs(t, err, io.EOF)
	_, err = follows.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool { return b.Used() == 0 }, time.Minute, time.Millisecond)
}

// A long ticket asks for no streams to follow, whatever it has: it is not parsed before it is verified.
func TestLongTicketsFollowNothing(t *testing.T) {
	name, follows := followOf([]byte(`{"follow": "ours"}`))
	require.True(t, follows && name == "ours")
	_, follows = followOf([]byte(`{"follow": "ours", "more": "` + strings.Repeat("a", maxFollowTicket) + `"}`))
	require.False(t, follows)
}

// A stream is not followed if its client does not understand moved, or if the header is not as the Python package sends it.
//
// spec: wire-59
func TestStreamsThatAreNotFollowed(t *testing.T) {
	s := serve(t, Options{Loader: newWorld(t).loader()})
	ticket := s.ticket(t, `{"dataset": "homefeed"}`)
	for _, values := range [][2]string{
		{"2", "a 1"},
		{movesForm, "a"},
		{movesForm, " 1"},
		{movesForm, "a b"},
		{movesForm, "a 1 2"},
		{movesForm, strings.Repeat("a", maxFollowName+1) + " 1"},
	} {
		stream, err := s.DoGet(followedHeaders(t.Context(), values[0], values[1]), ticket)
		require.NoError(t, err)
		header, err := stream.Header()
		require.NoError(t, err)
		require.Empty(t, header.Get(headerFollow), values)
		for err == nil {
			_, err = stream.Recv()
		}
		require.ErrorIs(t, err, io.EOF)
	}
}
