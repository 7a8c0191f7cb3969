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
	"unicode/utf8"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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
		got, d := s.flightInfoFailure(t, command(`{"dataset": "homefeed"}`))
		require.Equal(t, code, got, kind)
		require.Equal(t, details{
			Kind: kind.String(), Message: `plan "homefeed": it did not work`, Remedy: "try " + strings.ToUpper(kind.String()), Faults: e.Faults,
			Table: "ml.t", File: "s3://b/f.parquet", RowGroup: &group, RetryAfterMS: 1500, Differs: []string{"filter"},
		}, d)
	}
	cause = errors.New("something of another library")
	code, d := s.flightInfoFailure(t, command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Internal, code)
	require.Equal(t, details{Kind: "internal", Message: "something of another library"}, d)
}

// Calls that answer with a stream send the same details: their trailers take another path.
func TestStreamFailuresCarryDetails(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: w.loader()})
	var trailer metadata.MD
	stream, err := s.DoAction(context.Background(), &arrowflight.Action{Type: "explain", Body: []byte(`{"dataset": "homefed"}`)}, grpc.Trailer(&trailer))
	require.NoError(t, err)
	_, err = stream.Recv()
	code, d := failure(t, err, trailer)
	require.Equal(t, codes.NotFound, code)
	require.Equal(t, "homefeed", d.Faults[0].Nearest)
	require.Contains(t, d.Remedy, "homefeed")
}

func TestEndings(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), noon())
	defer cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		code  codes.Code
		label string
	}{
		"success":                   {context.Background(), nil, codes.OK, "ok"},
		"the client went away":      {cancelled, fails(fault.Corrupt), codes.Canceled, "cancelled"},
		"the deadline passed":       {late, fails(fault.Internal), codes.DeadlineExceeded, "deadline"},
		"cancelled within":          {context.Background(), fault.Op(context.Canceled, "read"), codes.Canceled, "cancelled"},
		"a deadline of storage":     {context.Background(), fault.Op(context.DeadlineExceeded, "read"), codes.Unavailable, "unavailable"},
		"a kind over a cancel":      {context.Background(), fault.New(fault.Unavailable, "gone: %w", context.Canceled), codes.Unavailable, "unavailable"},
		"a status of gRPC":          {context.Background(), status.Error(codes.Unimplemented, "no"), codes.Unimplemented, "unimplemented"},
		"an error without a kind":   {context.Background(), errors.New("x"), codes.Internal, "internal"},
		"a wrapped fault":           {context.Background(), fault.Op(fails(fault.Expired), "resume"), codes.FailedPrecondition, "expired"},
		"a connection that is lost": {context.Background(), fault.Op(status.Error(codes.Unavailable, "transport is closing"), "send"), codes.Canceled, "cancelled"},
		"a cancel without a cause":  {context.Background(), context.Canceled, codes.Canceled, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			end := endingOf(c.ctx, c.err)
			require.Equal(t, c.label, end.label)
			require.Equal(t, c.code, end.status.Code())
		})
	}
}

// Failures that are too long for trailers are cut.
func TestDetailsFitIntoTrailers(t *testing.T) {
	faults := make([]fault.Field, 300)
	for i := range faults {
		faults[i] = fault.Field{Field: fmt.Sprintf("staging[%d].columns", i), Message: strings.Repeat("wörter ", 40), Nearest: "x"}
	}
	differs := make([]string, 200)
	for i := range differs {
		differs[i] = fmt.Sprintf("pin.staging.history%d", i)
	}
	for name, e := range map[string]*fault.Error{
		"a long message":      {Kind: fault.Internal, Message: strings.Repeat("long\n", 5000)},
		"not text":            {Kind: fault.Internal, Message: strings.Repeat("\xff\x00\"", 4000), File: strings.Repeat("\x01", 9000)},
		"many faults":         {Kind: fault.Invalid, Message: "many", Faults: faults},
		"much differs":        {Kind: fault.Invalid, Message: "foreign", Differs: differs},
		"all of it":           {Kind: fault.Corrupt, Message: strings.Repeat("ü", 9000), Remedy: strings.Repeat("€", 9000), Table: strings.Repeat("t", 5000), File: strings.Repeat("f", 5000), Faults: faults, Differs: differs},
		"one very long fault": {Kind: fault.Invalid, Message: "m", Faults: []fault.Field{{Field: strings.Repeat("a", 10000), Message: strings.Repeat("b", 10000)}}},
	} {
		t.Run(name, func(t *testing.T) {
			text := detailsOf(e).encode(defaultMaxDetails)
			require.LessOrEqual(t, len(text), defaultMaxDetails)
			require.True(t, utf8.Valid(text))
			var d details
			require.NoError(t, json.Unmarshal(text, &d))
			require.Equal(t, e.Kind.String(), d.Kind)
			require.NotEmpty(t, d.Message)
			if len(e.Faults) > 1 {
				require.Regexp(t, `^and \d+ more$`, d.Faults[len(d.Faults)-1].Message)
				require.Equal(t, e.Faults[0].Field, d.Faults[0].Field)
			}
			require.LessOrEqual(t, len(messageOf(e)), maxMessage)
			require.True(t, utf8.ValidString(messageOf(e)))
		})
	}
}

// The longest details arrive over a connection.
func TestLongFailuresArrive(t *testing.T) {
	w := newWorld(t)
	s := serve(t, Options{Loader: altered{Loader: w.loader(), plan: func(dataset.Query) (loader.Planned, error) {
		return loader.Planned{}, &fault.Error{Kind: fault.Conflict, Message: strings.Repeat("€", 20000), Remedy: strings.Repeat("r", 20000)}
	}}})
	code, d := s.flightInfoFailure(t, command(`{"dataset": "homefeed"}`))
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
	code, d := s.flightInfoFailure(t, command(`{"dataset": "homefeed"}`))
	require.Equal(t, codes.Internal, code)
	require.Equal(t, "GetFlightInfo panicked: nil map", d.Message)
	require.NotContains(t, fmt.Sprint(d), "goroutine")
	var line struct{ Level, Method, End, Error, Stack string }
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	require.Equal(t, "ERROR", line.Level)
	require.Equal(t, "GetFlightInfo", line.Method)
	require.Contains(t, line.Stack, "TestPanicsFailOnlyTheirCall")
	broken = false
	_, err := s.GetFlightInfo(context.Background(), command(`{"dataset": "homefeed"}`))
	require.NoError(t, err)
}
