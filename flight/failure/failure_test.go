package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
)

func failed(kind fault.Kind) *fault.Error { return fault.New(kind, "it did not work") }

func TestEndings(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC))
	defer cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		code  codes.Code
		label string
	}{
		"success":                   {context.Background(), nil, codes.OK, "ok"},
		"the client went away":      {cancelled, failed(fault.Corrupt), codes.Canceled, "cancelled"},
		"the deadline passed":       {late, failed(fault.Internal), codes.DeadlineExceeded, "deadline"},
		"cancelled within":          {context.Background(), fault.Op(context.Canceled, "read"), codes.Canceled, "cancelled"},
		"a deadline of storage":     {context.Background(), fault.Op(context.DeadlineExceeded, "read"), codes.Unavailable, "unavailable"},
		"a kind over a cancel":      {context.Background(), fault.New(fault.Unavailable, "gone: %w", context.Canceled), codes.Unavailable, "unavailable"},
		"a status of gRPC":          {context.Background(), status.Error(codes.Unimplemented, "no"), codes.Unimplemented, "invalid"},
		"a message over gRPC's":     {context.Background(), status.Error(codes.ResourceExhausted, "too large"), codes.ResourceExhausted, "exhausted"},
		"a send to nobody":          {context.Background(), fault.Op(status.Error(codes.Canceled, "context canceled"), "send"), codes.Canceled, "cancelled"},
		"a send that is too late":   {context.Background(), fault.Op(status.Error(codes.DeadlineExceeded, "too late"), "send"), codes.DeadlineExceeded, "deadline"},
		"an error without a kind":   {context.Background(), errors.New("x"), codes.Internal, "internal"},
		"a wrapped fault":           {context.Background(), fault.Op(failed(fault.Expired), "resume"), codes.FailedPrecondition, "expired"},
		"a connection that is lost": {context.Background(), fault.Op(status.Error(codes.Unavailable, "transport is closing"), "send"), codes.Canceled, "cancelled"},
		"a cancel without a cause":  {context.Background(), context.Canceled, codes.Canceled, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			end := EndingOf(c.ctx, c.err)
			require.Equal(t, c.label, end.Label)
			require.Equal(t, c.code, end.Status.Code())
		})
	}
}

// A client decodes the failure that the server had, with each of its parts.
func TestDetailsAreParsed(t *testing.T) {
	group := 3
	for kind := fault.Internal; kind <= fault.Unavailable; kind++ {
		sent := &fault.Error{
			Kind: kind, Op: "read bucket 7", Message: "it did not work", Remedy: "try again", Table: "ml.events", File: "/a.parquet",
			RowGroup: &group, RetryAfter: 2 * time.Second, Differs: []string{"snapshot"},
		}
		got := Parse(DetailsOf(sent).encode(1 << 16))
		require.Equal(t, "read bucket 7: it did not work", got.Message)
		got.Op, got.Message = sent.Op, sent.Message
		require.Equal(t, sent, got)
	}
	many := fault.Fields([]fault.Field{{Field: "key", Message: "is required"}, {Field: "limit", Message: "is below 0"}})
	got := Parse(DetailsOf(fault.As(fault.Op(many, "plan"))).encode(1 << 16))
	require.Equal(t, "plan", got.Op)
	require.Equal(t, fault.As(many).Faults, got.Faults)
	require.True(t, commit.Uncertain(Parse(DetailsOf(fault.As(commit.AsUncertain(failed(fault.Unavailable)))).encode(1<<16))))
	require.Equal(t, fault.Internal, Parse([]byte("no JSON")).Kind)
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
			text := DetailsOf(e).encode(MaxDetails)
			require.LessOrEqual(t, len(text), MaxDetails)
			require.True(t, utf8.Valid(text))
			var d Details
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
