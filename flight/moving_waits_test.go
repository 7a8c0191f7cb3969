package flight

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/flighttest"
)

// A stream that was set back for lack of memory moves when its server shuts down, instead of waiting for other streams.
//
// spec: wire-56
func TestStreamsThatWaitForMemoryMove(t *testing.T) {
	back, crowded := make(chan string, 1), crowdedError(t)
	observed := func(dataset string) {
		select {
		case back <- dataset:
		default:
		}
	}
	s := serve(t, Options{MaxStreams: 2, Observer: Observer{StreamSetBack: observed}, Loader: opens(newWorld(t).loader(), func(context.Context) *canned {
		return &canned{setBack: func() bool { return true }, next: func(int) (arrow.RecordBatch, error) { return nil, crowded }}
	})})
	stream := s.getMoving(t, s.ticket(t, `{"dataset": "homefeed"}`), movesForm)
	require.Equal(t, "homefeed", <-back)
	other := s.server.admission.Of(admission.Stream{Client: "other"}) // with a slot, so that the stream would wait
	require.NoError(t, other.Enter(t.Context()))
	defer other.Release()
	var shut sync.WaitGroup
	shut.Go(func() { require.NoError(t, s.server.Shutdown(context.Background())) })
	_, err := stream.Recv()
	require.NoError(t, err, "the schema")
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, &moved{}, stream.moved)
	shut.Wait()
}

// A stream that waits for its first slot when its server shuts down has not begun: its client goes to another server.
//
// spec: wire-57
func TestStreamsThatWaitForSlotsDoNotBegin(t *testing.T) {
	s := serve(t, Options{MaxStreams: 1, Loader: newWorld(t).loader()})
	other := s.server.admission.Of(admission.Stream{Client: "other"})
	require.NoError(t, other.Enter(t.Context()))
	defer other.Release()
	queued := s.server.admission.Queued()
	stream := s.getMoving(t, s.ticket(t, `{"dataset": "homefeed"}`), movesForm)
	<-queued
	require.NoError(t, s.server.Shutdown(context.Background()))
	_, err := stream.Recv()
	code, d := flighttest.FailureOf(t, err, stream.Trailer())
	require.Equal(t, codes.Unavailable, code)
	require.Equal(t, "the server is shutting down", d.Message)
}

func TestWaitsOfStreamsEndWhenTheServerStops(t *testing.T) {
	crowded, broken := crowdedError(t), errors.New("it is broken")
	undo := func() bool { return true }
	for name, c := range map[string]struct {
		held  bool // it has a slot already
		fails error
		undo  func() bool
		want  error
	}{
		"a wait for a slot":        {false, nil, undo, errStops},
		"a step without memory":    {true, crowded, undo, errStops},
		"the same in planning":     {true, crowded, nil, errStops},
		"a step that stays as is":  {true, crowded, func() bool { return false }, crowded},
		"a step that fails":        {true, broken, undo, broken},
		"a step that is completed": {true, nil, undo, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := admission.New(1, 100, time.Now)
			first, at := a.Of(admission.Stream{Client: "x"}), a.Of(admission.Stream{Client: "y"})
			if c.held {
				first = at
			}
			require.NoError(t, first.Enter(t.Context()))
			defer first.Release()
			waiting, stop := context.WithCancel(t.Context())
			stop()
			err := withinUntil(t.Context(), waiting, at, func() error { return c.fails }, c.undo)
			require.ErrorIs(t, err, c.want)
		})
	}
}

// The client that has gone is not told to go elsewhere.
func TestWaitsOfClientsThatHaveGone(t *testing.T) {
	a := admission.New(1, 100, time.Now)
	first := a.Of(admission.Stream{Client: "x"})
	require.NoError(t, first.Enter(t.Context()))
	defer first.Release()
	gone, leave := context.WithCancel(t.Context())
	leave()
	err := withinUntil(gone, gone, a.Of(admission.Stream{Client: "y"}), func() error { return nil }, nil)
	require.ErrorIs(t, err, context.Canceled)
}
