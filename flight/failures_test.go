package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// Plans that fail with each kind have its code and all details.
func TestKindsOfFailureOnTheWire(t *testing.T) {
	w := newWorld(t)
	var cause error
	s := serve(t, Options{Loader: altered{Loader: w.loader(), plan: func(dataset.Query) (loader.Planned, error) { return loader.Planned{}, cause }}})
	for kind, code := range map[fault.Kind]codes.Code{
		fault.Internal: codes.Internal, fault.Invalid: codes.InvalidArgument, fault.NotFound: codes.NotFound,
		fault.Unauthenticated: codes.Unauthenticated, fault.Forbidden: codes.PermissionDenied, fault.Expired: codes.FailedPrecondition,
		fault.Conflict: codes.Aborted, fault.Exhausted: codes.ResourceExhausted, fault.Corrupt: codes.DataLoss, fault.Unavailable: codes.Unavailable,
	} {
		group := 7
		e := fails(kind).In("ml.t", "s3://b/f.parquet").InRowGroup(group)
		e.Faults = []fault.Field{{Field: "filter", Position: 3, Message: "no such column", Nearest: "day"}}
		e.RetryAfter, e.Differs = 1500*time.Millisecond, []string{"filter"}
		cause = fault.Op(e, "plan %q", "homefeed")
		got, d := s.flightInfoFailure(t, flighttest.Command(`{"dataset": "homefeed"}`))
		require.Equal(t, code, got, kind)
		require.Equal(t, failure.Details{
			Kind: kind.String(), Message: `plan "homefeed": it did not work`, Remedy: "try " + strings.ToUpper(kind.String()), Faults: e.Faults,
			Table: "ml.t", File: "s3://b/f.parquet", RowGroup: &group, RetryAfterMS: 1500, Differs: []string{"filter"},
		}, d)
	}
	cause = errors.New("something of another library")
	code, d := s.flightInfoFailure(t, flighttest.Command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Internal, code)
	require.Equal(t, failure.Details{Kind: "internal", Message: "something of another library"}, d)
}

// Calls that answer with a stream send the same details: their trailers take another path.
func TestStreamFailuresCarryDetails(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	var trailer metadata.MD
	stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "explain", Body: []byte(`{"dataset": "homefed"}`)}, grpc.Trailer(&trailer))
	require.NoError(t, err)
	_, err = stream.Recv()
	code, d := flighttest.FailureOf(t, err, trailer)
	require.Equal(t, codes.NotFound, code)
	require.Equal(t, "homefeed", d.Faults[0].Nearest)
	require.Contains(t, d.Remedy, "homefeed")
}

// The longest details arrive over a connection.
func TestLongFailuresArrive(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: altered{Loader: w.loader(), plan: func(dataset.Query) (loader.Planned, error) {
		return loader.Planned{}, &fault.Error{Kind: fault.Conflict, Message: strings.Repeat("€", 20000), Remedy: strings.Repeat("r", 20000)}
	}}})
	code, d := s.flightInfoFailure(t, flighttest.Command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Aborted, code)
	require.Contains(t, d.Remedy, "rrr…")
}

// A panic fails its call only. The log has the stack, the client does not.
func TestPanicsFailOnlyTheirCall(t *testing.T) {
	w := newWorld(t)
	broken := true
	var log bytes.Buffer
	s := serve(t, Options{
		Logger: slog.New(slog.NewJSONHandler(&log, nil)),
		Loader: altered{Loader: w.loader(), plan: func(q dataset.Query) (loader.Planned, error) {
			if broken {
				panic("nil map")
			}
			return w.loader().Plan(context.Background(), q)
		}},
	})
	code, d := s.flightInfoFailure(t, flighttest.Command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Internal, code)
	require.Equal(t, "GetFlightInfo panicked: nil map", d.Message)
	require.NotContains(t, fmt.Sprint(d), "goroutine")
	var line struct{ Level, Method, End, Error, Stack string }
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	require.Equal(t, "ERROR", line.Level)
	require.Equal(t, "GetFlightInfo", line.Method)
	require.Contains(t, line.Stack, "TestPanicsFailOnlyTheirCall")
	broken = false
	_, err := s.GetFlightInfo(context.Background(), flighttest.Command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
}
