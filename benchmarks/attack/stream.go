package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc/metadata"
)

// stream is one DoGet call. It is read either as messages, by skip, or as batches, by read.
type stream struct {
	cancel context.CancelFunc
	calls  arrowflight.FlightService_DoGetClient
	cursor json.RawMessage // of the last batch
	report json.RawMessage // of the end
	bytes  int64
	err    error // of the last message; io.EOF at the end
}

// open redeems a ticket. The caller closes the stream.
func (c *client) open(ctx context.Context, ticket []byte) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	calls, err := c.flight.DoGet(ctx, &arrowflight.Ticket{Ticket: ticket})
	if err != nil {
		cancel()
		return nil, failed("stream", err, nil)
	}
	return &stream{cancel: cancel, calls: calls}, nil
}

func (s *stream) close() { s.cancel() }

// Recv implements arrowflight.DataStreamReader. The last message is not Arrow's: it has the report.
func (s *stream) Recv() (*arrowflight.FlightData, error) {
	for {
		message, err := s.calls.Recv()
		if err != nil {
			var trailer metadata.MD
			if !errors.Is(err, io.EOF) {
				trailer = s.calls.Trailer()
			}
			s.err = failed("stream", err, trailer)
			return nil, s.err
		}
		s.bytes += int64(len(message.GetDataBody()))
		if len(message.GetDataHeader()) > 0 {
			if said := message.GetAppMetadata(); len(said) > 0 {
				s.cursor = said
			}
			return message, nil
		}
		var said struct {
			Report json.RawMessage `json:"report"`
		}
		if json.Unmarshal(message.GetAppMetadata(), &said) == nil {
			s.report = said.Report
		}
	}
}

// skip reads n batches without decoding them, or all if n is negative. It returns io.EOF if the
// stream ends before that.
func (s *stream) skip(batches int) error {
	for batches != 0 {
		s.cursor = nil
		if _, err := s.Recv(); err != nil {
			if batches < 0 && errors.Is(err, io.EOF) && s.report != nil {
				return nil
			}
			return err
		}
		if s.cursor != nil {
			batches--
		}
	}
	return nil
}

// reading are the options for reading a query.
type reading struct {
	query query
	limit int64            // rows after which to stop; 0: all
	after func(batch int)  // called after each batch, counted from 1; nil: nothing
	again func(error) bool // whether to resume from the cursor after an error; nil: never
	where func() *client   // the client to read with, asked before each attempt
	pause time.Duration    // before the next attempt
}

// gotten are the rows that were read, in order, from one or several streams. Each stream resumed
// from the cursor of the previous one.
type gotten struct {
	digest  digest
	batches int
	bytes   int64
	resumed int
	cursor  json.RawMessage
}

// read reads a query's rows to the end, or to the limit. A stream that ends without a report, or
// with a report of another number of rows, is an error.
func read(ctx context.Context, r reading) (*gotten, error) {
	g := &gotten{}
	for {
		err := g.once(ctx, r)
		if err == nil || ctx.Err() != nil || r.again == nil || !r.again(err) {
			return g, err
		}
		g.resumed++
		wait(ctx, r.pause)
	}
}

// wait waits for a time, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// once reads one stream from the cursor.
func (g *gotten) once(ctx context.Context, r reading) error {
	c, q := r.where(), r.query
	q.Cursor = g.cursor
	p, err := c.plan(ctx, q)
	if err != nil {
		return err
	}
	for _, ticket := range p.tickets {
		s, err := c.open(ctx, ticket)
		if err != nil {
			return err
		}
		done, err := g.take(s, r)
		s.close()
		if err != nil || done {
			return err
		}
	}
	return nil
}

// take reads a stream; done reports whether the limit is reached.
func (g *gotten) take(s *stream, r reading) (done bool, err error) {
	fault := func(err error) error {
		if s.err != nil && !errors.Is(s.err, io.EOF) {
			return s.err
		}
		return err
	}
	batches, err := arrowflight.NewRecordReader(s)
	if err != nil {
		return false, fault(err)
	}
	defer batches.Release()
	var rows int64
	defer func() { g.bytes += s.bytes }()
	for batches.Next() {
		b := batches.RecordBatch()
		if left := r.limit - g.digest.rows; r.limit > 0 && b.NumRows() > left {
			cut := b.NewSlice(0, left)
			defer cut.Release()
			return true, g.digest.add(cut)
		}
		if err := g.digest.add(b); err != nil {
			return false, err
		}
		rows += b.NumRows()
		g.batches++
		g.cursor = s.cursor
		if r.after != nil {
			r.after(g.batches)
		}
	}
	if err := fault(batches.Err()); err != nil {
		return false, err
	}
	var said struct {
		Rows *int64 `json:"rows"`
	}
	if err := json.Unmarshal(s.report, &said); err != nil || said.Rows == nil {
		return false, fmt.Errorf("the stream ended without its report after %d rows", rows)
	}
	if *said.Rows != rows {
		return false, fmt.Errorf("the report says %d rows, %d came", *said.Rows, rows)
	}
	return false, nil
}
