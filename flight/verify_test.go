package flight

import (
	"context"
	"encoding/json"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// verifying is a Verifier of one function.
type verifying func(ctx context.Context, request loader.PlanRequest, progress func(loader.VerifyProgress)) (*loader.Verification, error)

func (v verifying) Verify(ctx context.Context, request loader.PlanRequest, progress func(loader.VerifyProgress)) (*loader.Verification, error) {
	return v(ctx, request, progress)
}

// verify calls the action.
func (s *served) verify(body string) ([]byte, error) {
	stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "verify", Body: []byte(body)})
	if err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	return result.GetBody(), err
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	l := w.loader()
	s := serve(t, Options{Loader: l, Verifier: l, MaxStreams: 1})
	want, err := l.Verify(context.Background(), loader.PlanRequest{Query: dataset.Query{Rows: dataset.Rows{Dataset: "homefeed"}}}, nil)
	require.NoError(t, err)
	text, err := s.verify(`{"dataset": "homefeed"}`)
	require.NoError(t, err)
	var got loader.Verification
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, want, &got)
	for body, want := range map[string]codes.Code{`{`: codes.InvalidArgument, `{"dataset": "gone"}`: codes.NotFound} {
		_, err = s.verify(body)
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, want, code)
	}
	require.Zero(t, s.server.Streams())
}

// spec: change-11
func TestVerifyReportsProgress(t *testing.T) {
	w := newWorld(t)
	l := w.loader()
	s := serve(t, Options{Loader: l, Verifier: l, MaxStreams: 1})
	want, err := s.verify(`{"dataset": "homefeed"}`)
	require.NoError(t, err)
	stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "verify_progress", Body: []byte(`{"dataset": "homefeed"}`)})
	require.NoError(t, err)
	var last progress.Message
	for {
		answer, err := stream.Recv()
		require.NoError(t, err)
		var message struct {
			Progress *progress.Message `json:"progress"`
			Result   json.RawMessage   `json:"result"`
		}
		require.NoError(t, json.Unmarshal(answer.GetBody(), &message))
		if message.Result != nil {
			require.JSONEq(t, string(want), string(message.Result))
			break
		}
		last = *message.Progress
		require.Equal(t, "read", last.Step)
	}
	require.Positive(t, last.RowsRead)
	require.Equal(t, last.OfRowsRead, last.RowsRead, "the rows of the last table are those that were expected")
}

// A verification takes the slot of a stream, and ends with the server.
func TestVerifyCountsAsAStream(t *testing.T) {
	w := newWorld(t)
	begun := make(chan struct{})
	s := serve(t, Options{Loader: w.loader(), MaxStreams: 1, Verifier: verifying(func(ctx context.Context, _ loader.PlanRequest, _ func(loader.VerifyProgress)) (*loader.Verification, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	ended := make(chan error)
	go func() {
		_, err := s.verify(`{"dataset": "homefeed"}`)
		ended <- err
	}()
	<-begun
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	s.fillQueue(ctx, t, s.ticket(t, `{"dataset": "homefeed"}`))
	_, err := s.verify(`{"dataset": "homefeed"}`)
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.ResourceExhausted, code)
	leave()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	require.Equal(t, fault.Unavailable, fault.KindOf(s.server.Shutdown(over)))
	code, _ = flighttest.FailureOf(t, <-ended, nil)
	require.Equal(t, codes.Unavailable, code)
}

func TestVerifyIsNotServedWithoutAVerifier(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	_, err := s.verify(`{"dataset": "homefeed"}`)
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.InvalidArgument, code)
}
