package client

import (
	"context"
	"encoding/json"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/fault"
)

// A client that understands the message moved sends a header with DoGet (docs/spec/wire.md).
const headerMoves, movesForm = "penstock-moves", "1"

// After the message moved, the server's address may be that of a load balancer, or the server restarts. The rest of the stream is
// asked for again movedTries times, with delays of movedDelay to movedLongest: for about a minute.
const (
	movedTries   = 60
	movedDelay   = 100 * time.Millisecond
	movedLongest = 2 * time.Second
)

// moved is the last message of a stream whose server was told to stop.
type moved struct {
	Batches int64           `json:"batches"`
	Cursor  json.RawMessage `json:"cursor"`
}

// rest is the query of a stream, as far as it is needed to ask for the stream's rest; nil if the stream cannot move.
type rest map[string]json.RawMessage

// restOf returns the rest of a query. A stream with a limit, and a part of a shard, cannot move: their rest has another form.
func restOf(query []byte) rest {
	fields := rest{}
	if json.Unmarshal(query, &fields) != nil {
		return nil
	}
	for _, name := range []string{"limit", "endpoints", "every"} {
		if _, names := fields[name]; names {
			return nil
		}
	}
	return fields
}

// after returns the query of the rows after a cursor, which has the shard and the snapshots.
func (r rest) after(cursor json.RawMessage) ([]byte, error) {
	var at struct {
		Shard json.RawMessage `json:"shard"`
	}
	if err := json.Unmarshal(cursor, &at); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for name, value := range r {
		if name != "snapshots" {
			fields[name] = value
		}
	}
	fields["cursor"], fields["shard"] = cursor, at.Shard
	return json.Marshal(fields)
}

// declareMoves returns the context of a DoGet whose stream may move.
func declareMoves(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headerMoves, movesForm)
}

// follow opens the rest of a stream that has moved. Without a batch, this is the whole stream, whose ticket is redeemed again.
func (s *stream) follow() (*stream, error) {
	if s.moved.Batches != s.batches {
		return nil, fault.New(fault.Internal, "the stream moved after %d batches, %d arrived", s.moved.Batches, s.batches)
	}
	for attempt := 1; ; attempt++ {
		next, err := s.reopen()
		if err == nil || fault.KindOf(err) != fault.Unavailable || attempt == movedTries {
			return next, err
		}
		if gone := backoff.Wait(s.parent, attempt, movedDelay, movedLongest); gone != nil {
			return nil, gone
		}
	}
}

// reopen plans the rest of a stream that has moved, and opens it.
func (s *stream) reopen() (*stream, error) {
	again := s.request
	if s.batches > 0 {
		query, err := s.rest.after(s.moved.Cursor)
		if err != nil {
			return nil, fault.New(fault.Internal, "read the cursor of a stream that moved: %w", err)
		}
		described, _, err := s.client.describe(s.parent, query)
		if err != nil {
			return nil, err
		}
		if n := len(described.GetEndpoint()); n != 1 {
			return nil, fault.New(fault.Internal, "the server returned %d endpoints for the rest of one shard", n)
		}
		if err := samePlan(s.plan, described); err != nil {
			return nil, err
		}
		again.ticket = described.GetEndpoint()[0].GetTicket()
	}
	return s.client.get(s.parent, again)
}

// planOf returns the id of the plan of a FlightInfo.
func planOf(described *arrowflight.FlightInfo) string {
	var summary struct {
		Plan string `json:"plan"`
	}
	if json.Unmarshal(described.GetAppMetadata(), &summary) != nil {
		return ""
	}
	return summary.Plan
}

// samePlan returns an error if a plan of a stream's rest is not that of the stream.
func samePlan(before string, described *arrowflight.FlightInfo) error {
	if now := planOf(described); now != before {
		return fault.New(fault.Expired, "the stream cannot continue: its plan was %s, and is %s now", before, now).WithRemedy("read it from the start")
	}
	return nil
}
