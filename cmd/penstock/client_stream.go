package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/internal/fault"
)

// get redeems a ticket. Grouped says that a row of its stream is a request.
func (c *client) get(ctx context.Context, ticket *arrowflight.Ticket, grouped bool) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	calls, err := c.flight.DoGet(ctx, ticket)
	if err != nil {
		err = c.fault(ctx, err, nil) // which asks whether the user gave up
		cancel()
		return nil, err
	}
	s := &stream{client: c, ctx: ctx, cancel: cancel, calls: calls, grouped: grouped}
	if s.Reader, err = arrowflight.NewRecordReader(s); err != nil {
		cancel()
		if s.failure != nil {
			err = s.failure
		}
		return nil, err
	}
	return s, nil
}

// stream is one DoGet: the batches of a shard. Report is asked for after its
// end.
type stream struct {
	*arrowflight.Reader
	client  *client
	ctx     context.Context //nolint:containedctx // the call's, as long as the stream
	cancel  context.CancelFunc
	calls   arrowflight.FlightService_DoGetClient
	grouped bool
	rows    int64
	last    json.RawMessage // the report
	failure error
}

// Recv implements arrowflight.DataStreamReader. Messages without data are not
// Arrow's: the last one has the report.
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
		var said struct {
			Report json.RawMessage `json:"report"`
		}
		if err := json.Unmarshal(message.GetAppMetadata(), &said); err == nil {
			s.last = said.Report
		}
	}
}

// Next moves to the next batch.
func (s *stream) Next() bool {
	if !s.Reader.Next() {
		return false
	}
	s.rows += s.RecordBatch().NumRows()
	return true
}

// Err says why the stream ended early; nil if it did not.
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

// Report returns what the server says of the stream. One
// without a report, or with other rows than it says, is not whole.
func (s *stream) Report() (report, error) {
	if s.last == nil {
		return report{}, fault.New(fault.Unavailable, "the stream from %s ended without its report: rows may be missing", s.client.name)
	}
	r, err := parseReport(s.last)
	sent, what := r.Rows, "rows"
	if s.grouped {
		sent, what = r.Requests, "requests"
	}
	if err == nil && sent != s.rows {
		err = fault.New(fault.Internal, "the server says that it sent %d %s, %d arrived", sent, what, s.rows)
	}
	return r, err
}
