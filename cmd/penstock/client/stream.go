package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/internal/fault"
)

// request is what opens a stream.
type request struct {
	ticket  *arrowflight.Ticket
	grouped bool   // each row of the stream is a request
	plan    string // the id of the plan
	rest    rest   // nil: the stream cannot move
}

// get redeems a ticket and returns its stream.
func (c *Client) get(parent context.Context, r request) (*stream, error) {
	ctx, cancel := context.WithCancel(parent)
	if r.rest != nil {
		ctx = declareMoves(ctx)
	}
	calls, err := c.flight.DoGet(ctx, r.ticket)
	if err != nil {
		err = c.fault(ctx, err, nil) // called before cancel, because fault checks whether ctx has ended
		cancel()
		return nil, err
	}
	s := &stream{request: r, client: c, parent: parent, ctx: ctx, cancel: cancel, calls: calls}
	if s.Reader, err = arrowflight.NewRecordReader(s); err != nil {
		cancel()
		if s.failure != nil {
			err = s.failure
		}
		return nil, err
	}
	return s, nil
}

// stream reads the batches of one DoGet. Its report is valid after the last batch.
type stream struct {
	*arrowflight.Reader
	request
	client  *Client
	parent  context.Context //nolint:containedctx // the context of the stream and its rest
	ctx     context.Context //nolint:containedctx // the context of the call, which ends with the stream
	cancel  context.CancelFunc
	calls   arrowflight.FlightService_DoGetClient
	rows    int64
	batches int64
	last    json.RawMessage // the report
	moved   *moved          // nil unless the stream has moved
	failure error
}

// Recv implements arrowflight.DataStreamReader. It keeps messages without an Arrow header from the
// reader. The last message of this kind contains the report, or says that the stream has moved.
func (s *stream) Recv() (*arrowflight.FlightData, error) {
	for {
		message, err := s.calls.Recv()
		if errors.Is(err, io.EOF) {
			return nil, err
		}
		if err != nil {
			s.failure = s.client.broken(s.ctx, err, s.calls.Trailer(), s.rows)
			return nil, s.failure
		}
		if len(message.GetDataHeader()) > 0 {
			return message, nil
		}
		var metadata struct {
			Report json.RawMessage `json:"report"`
			Moved  *moved          `json:"moved"`
		}
		if err := json.Unmarshal(message.GetAppMetadata(), &metadata); err == nil {
			s.last, s.moved = metadata.Report, metadata.Moved
		}
	}
}

// Next moves to the next batch.
func (s *stream) Next() bool {
	if !s.Reader.Next() {
		return false
	}
	s.rows += s.RecordBatch().NumRows()
	s.batches++
	return true
}

// Err returns the error because of which the stream ended early, or nil if it did not.
func (s *stream) Err() error {
	if s.failure != nil {
		return s.failure
	}
	return s.Reader.Err()
}

// Release ends the call.
func (s *stream) Release() {
	s.cancel()
	s.Reader.Release()
}

// Report returns the server's report on the stream. It returns an error if the server sent no
// report, or if the number of received rows differs from the number in the report.
func (s *stream) Report() (Report, error) {
	if s.last == nil {
		return Report{}, fault.New(fault.Unavailable, "the stream from %s ended without its report: rows may be missing", s.client.name)
	}
	r, err := parseReport(s.last)
	if err != nil {
		return r, s.client.versions.compared(fault.As(err))
	}
	sent, unit := r.Rows, "rows"
	if s.grouped {
		sent, unit = r.Requests, "requests"
	}
	if sent != s.rows {
		return r, fault.New(fault.Internal, "the server reports that it sent %d %s, %d arrived", sent, unit, s.rows)
	}
	return r, nil
}
