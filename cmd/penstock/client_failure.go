package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
)

// fault makes one of our failures of a gRPC error and the trailer beside it.
func (c *client) fault(ctx context.Context, err error, trailer metadata.MD) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if text := trailer.Get(flight.TrailerKey); len(text) > 0 {
		return parseDetails([]byte(text[0]))
	}
	s := status.Convert(err)
	e := fault.New(kindOf(s.Code()), "%s", s.Message())
	if e.Kind == fault.Unavailable {
		e.Op = "ask " + c.name
		if strings.Contains(e.Message, "server preface: http2:") {
			e.Message = "what answers there is no Flight server, perhaps one of HTTP: " + undressed(e.Message)
			return e.WithRemedy("take the address that penstock serve prints on standard output, not that of its metrics")
		}
		e.Message = "no server answers: " + undressed(e.Message)
		return e.WithRemedy("start one there with penstock serve --config FILE, or correct --uri; --config FILE reads without a server")
	}
	if s.Code() == codes.Unimplemented { // a Penstock server sends details with it
		e.Op, e.Message = "ask "+c.name, "what answers there is not a Penstock server: "+e.Message
		return e.WithRemedy("take the address that penstock serve prints on standard output")
	}
	return e
}

// undressed takes what gRPC puts around the system's own words on a connection.
func undressed(message string) string {
	message = strings.TrimPrefix(message, "connection error: desc = ")
	if inner, err := strconv.Unquote(message); err == nil {
		message = inner
	}
	return strings.TrimPrefix(strings.TrimPrefix(message, "transport: "), "Error while dialing: ")
}

// broken is the failure of a stream of which so many rows have come. What the server says
// it says in a trailer: without one, the server or the connection is gone.
func (c *client) broken(ctx context.Context, err error, trailer metadata.MD, rows int64) error {
	e := c.fault(ctx, err, trailer)
	var gone *fault.Error
	if len(trailer.Get(flight.TrailerKey)) > 0 || !errors.As(e, &gone) || gone.Kind != fault.Unavailable {
		return e
	}
	return fault.New(fault.Unavailable, "the server is gone, or the connection to it, behind %s: %s", rowsText(rows), undressed(status.Convert(err).Message())).
		WithRemedy("see its log and start it again, then read again: what has come is not whole")
}

// unnamed takes the name of an action from the beginning of a failure.
func unnamed(err error, action string) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		e.Op = strings.TrimPrefix(strings.TrimPrefix(e.Op, action), ": ")
		e.Message = strings.TrimPrefix(e.Message, action+": ")
	}
	return err
}

// parseDetails reads the JSON that a server sends with a failure.
func parseDetails(text []byte) *fault.Error {
	var d struct {
		Kind         string        `json:"kind"`
		Message      string        `json:"message"`
		Remedy       string        `json:"remedy"`
		Faults       []fault.Field `json:"faults"`
		Table        string        `json:"table"`
		File         string        `json:"file"`
		RowGroup     *int          `json:"row_group"`
		RetryAfterMS int64         `json:"retry_after_ms"`
		Differs      []string      `json:"differs"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return fault.New(fault.Internal, "read the details of a failure: %w", err)
	}
	e := &fault.Error{
		Message: d.Message, Remedy: d.Remedy, Faults: d.Faults, Table: d.Table, File: d.File, RowGroup: d.RowGroup,
		RetryAfter: time.Duration(d.RetryAfterMS) * time.Millisecond, Differs: d.Differs,
	}
	if many := fault.Fields(d.Faults); many != nil {
		// On the wire the operation is a part of the message.
		if op, cut := strings.CutSuffix(d.Message, ": "+many.Error()); cut {
			e.Op, e.Message = op, many.Error()
		}
	}
	for kind := fault.Internal; kind <= fault.Unavailable; kind++ {
		if kind.String() == d.Kind {
			e.Kind = kind
		}
	}
	return e
}

// kindOf is the way back from a gRPC code, for failures without details.
func kindOf(code codes.Code) fault.Kind {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented:
		return fault.Invalid
	case codes.NotFound:
		return fault.NotFound
	case codes.Unauthenticated:
		return fault.Unauthenticated
	case codes.PermissionDenied:
		return fault.Forbidden
	case codes.FailedPrecondition:
		return fault.Expired
	case codes.Aborted:
		return fault.Conflict
	case codes.ResourceExhausted:
		return fault.Exhausted
	case codes.DataLoss:
		return fault.Corrupt
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fault.Unavailable
	default:
		return fault.Internal
	}
}
