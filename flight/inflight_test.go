package flight

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// heavy returns a constructor of streams of batches of 1 MiB, reserved from a budget.
func heavy(t *testing.T, b *budget.Budget, batches int) func(context.Context) *canned {
	t.Helper()
	const bytes = 1 << 20
	return func(ctx context.Context) *canned {
		var last arrow.RecordBatch
		drop := func() {
			if last != nil {
				last.Release()
				last = nil
			}
		}
		return &canned{released: drop, next: func(n int) (arrow.RecordBatch, error) {
			drop()
			if n == batches {
				return nil, ctx.Err()
			}
			held, err := b.Reserve("a batch", 0)
			if err == nil {
				err = held.GrowWait(ctx, bytes)
			}
			if err != nil {
				return nil, err
			}
			last = batch.NewCharged(numbers(bytes/arrow.Int64SizeBytes), held)
			return last, nil
		}}
	}
}

// stall opens a stream over its own connection, and reads only its schema.
func (s *served) stall(t *testing.T) arrowflight.FlightService_DoGetClient {
	t.Helper()
	stream, err := dial(t, s.address).DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	return stream
}

// bodies reads a stream to its end, and returns the number of its batches of 1 MiB.
func bodies(t *testing.T, stream arrowflight.FlightService_DoGetClient) int {
	t.Helper()
	batches := 0
	for {
		m, err := stream.Recv()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return batches
		}
		if len(m.GetDataBody()) > 0 {
			require.Len(t, m.GetDataBody(), 1<<20)
			batches++
		}
	}
}

// inFlight returns the bytes of all batches in flight.
func (s *served) inFlight() int64 {
	_, bytes := s.server.inflight.Counts()
	return bytes
}

// requireNothingHeld waits until the memory of all batches is released.
func (s *served) requireNothingHeld(t *testing.T, b *budget.Budget) {
	t.Helper()
	require.Eventually(t, func() bool { return b.Used() == 0 && s.inFlight() == 0 }, time.Minute, time.Millisecond)
}

// A client that reads gets all of its rows. Clients that do not read lose their connections
// when their batches are in the way.
//
// spec: wire-10
func TestStalledClientsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	b := budget.New(64 << 20)
	s := serve(t, Options{Loader: opens(newWorld(t).loader(), heavy(t, b, 100)), MaxTransit: 8 << 20, Clock: time.Now, Pressed: b.Pressed})
	var stalled []arrowflight.FlightService_DoGetClient
	for range 12 { // each holds a batch that gRPC has
		stalled = append(stalled, s.stall(t))
	}
	stream, err := s.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
	require.NoError(t, err)
	require.Equal(t, 100, bodies(t, stream))
	require.LessOrEqual(t, b.Peak(), int64((8+2*13)<<20), "besides batches in flight, each stream has at most two")
	lost := 0
	for _, stream := range stalled {
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		if code, _ := flighttest.FailureOf(t, err, nil); code == codes.Unavailable {
			lost++
		}
	}
	require.GreaterOrEqual(t, lost, 4, "8 MiB hold the batches of 8")
	for range 13 {
		<-s.ended
	}
	s.requireNothingHeld(t, b)
}

// The batches that gRPC had of a broken connection are released.
//
// spec: wire-9
func TestBrokenConnectionsReleaseTheirBatches(t *testing.T) {
	t.Parallel()
	b := budget.New(64 << 20)
	s := serve(t, Options{Loader: opens(newWorld(t).loader(), heavy(t, b, 1000)), Clock: time.Now})
	for range 4 {
		client := dial(t, s.address)
		stream, err := client.DoGet(t.Context(), s.ticket(t, `{"dataset":"homefeed"}`))
		require.NoError(t, err)
		for range 3 {
			_, err = stream.Recv()
			require.NoError(t, err)
		}
		require.Positive(t, b.Used())
		require.NoError(t, client.Close())
		<-s.ended
		s.requireNothingHeld(t, b)
	}
}
