package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
)

// client asks a server, as any other client would: explain, cat, verify and
// datasets get all their answers here. Queries are JSON, as clients write them.
type client struct {
	flight arrowflight.Client
	name   string       // of the server, in messages
	end    func() error // ends the server, if it is this client's own; nil: it is not
}

// dial makes a client for a URI. It connects with the first call.
func dial(uri string) (*client, error) {
	target, err := dialed(uri)
	if err != nil {
		return nil, err
	}
	c, err := connect(target, flight.DefaultMaxMessage)
	if err != nil {
		return nil, fault.InvalidField("uri", "%q: %v", fault.RedactURI(uri), err)
	}
	c.name = uri
	return c, nil
}

// connect makes a client for a gRPC target, which takes messages of a size in
// bytes.
func connect(target string, most int, options ...grpc.DialOption) (*client, error) {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most)))
	c, err := arrowflight.NewClientWithMiddleware(target, nil, nil, options...)
	if err != nil {
		return nil, fault.New(fault.Internal, "make a client: %w", err)
	}
	return &client{flight: c}, nil
}

// dialed returns the gRPC target of a URI.
func dialed(uri string) (string, error) {
	scheme, address, found := strings.Cut(uri, "://")
	if !found {
		scheme, address = "grpc", uri
	}
	_, _, err := net.SplitHostPort(address)
	switch {
	case scheme == "grpc+tls":
		return "", fault.InvalidField("uri", "TLS is not served by this version").WithRemedy("use grpc://host:port")
	case scheme == "grpc+unix" && filepath.IsAbs(address):
		return (&url.URL{Scheme: "unix", Path: address}).String(), nil
	case scheme != "grpc+unix" && strings.Contains(address, "@"):
		return "", fault.InvalidField("uri", "%q names a user, and this version takes no credentials", fault.RedactURI(uri)).
			WithRemedy("use grpc://host:port")
	case scheme != "grpc" && scheme != "grpc+tcp" || err != nil:
		return "", fault.InvalidField("uri", "%q is not of the form grpc://host:port or grpc+unix:///path", fault.RedactURI(uri))
	}
	return address, nil
}

// Close ends the connection, and the server if it is the client's own.
func (c *client) Close() error {
	err := c.flight.Close()
	if c.end != nil {
		err = errors.Join(err, c.end())
	}
	return err
}

// Datasets lists the datasets; one that cannot be resolved has its error.
func (c *client) Datasets(ctx context.Context) ([]listed, error) {
	flights, err := c.flight.ListFlights(ctx, &arrowflight.Criteria{})
	if err != nil {
		return nil, c.fault(ctx, err, nil)
	}
	var out []listed
	for {
		one, err := flights.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, c.fault(ctx, err, flights.Trailer())
		}
		out = append(out, listing(one))
	}
}

// listing reads one dataset of ListFlights.
func listing(f *arrowflight.FlightInfo) listed {
	one := listed{name: strings.Join(f.GetFlightDescriptor().GetPath(), "."), rows: f.GetTotalRecords()}
	var about struct {
		Pin struct {
			Staging map[string]json.RawMessage `json:"staging"`
		} `json:"pin"`
		Error json.RawMessage `json:"error"`
	}
	err := json.Unmarshal(f.GetAppMetadata(), &about)
	if err == nil && about.Error != nil {
		one.err = parseDetails(about.Error)
		return one
	}
	one.staging = slices.Sorted(maps.Keys(about.Pin.Staging))
	if one.schema, err = arrowflight.DeserializeSchema(f.GetSchema(), memory.DefaultAllocator); err != nil {
		one.err = fault.New(fault.Internal, "read its schema: %w", err)
	}
	return one
}

// Explain returns the plan of a query as text.
func (c *client) Explain(ctx context.Context, query []byte) (string, error) {
	text, err := c.act(ctx, "explain", query)
	return string(text), err
}

// Verify lets the server read the keys of a query's tables, and returns its
// report.
func (c *client) Verify(ctx context.Context, query []byte) (*loader.Verification, error) {
	text, err := c.act(ctx, "verify", query)
	if err != nil {
		return nil, err
	}
	var found loader.Verification
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fault.New(fault.Internal, "read the report that %s sent: %w", c.name, err)
	}
	if found.Plan == "" {
		return nil, fault.New(fault.Internal, "%s sent no report", c.name)
	}
	return &found, nil
}

// act calls an action and returns its results, one after the other. Failures
// do not name the action: the user gave the command.
func (c *client) act(ctx context.Context, name string, body []byte) ([]byte, error) {
	answers, err := c.flight.DoAction(ctx, &arrowflight.Action{Type: name, Body: body})
	if err != nil {
		return nil, unnamed(c.fault(ctx, err, nil), name)
	}
	var out []byte
	for {
		answer, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, unnamed(c.fault(ctx, err, answers.Trailer()), name)
		}
		out = append(out, answer.GetBody()...)
	}
}

// Open opens the shards that a query asks for, to be read one after the other.
// Nothing is read before the first Next. All are read from this server,
// whatever locations the endpoints name: any server with the same keys redeems
// their tickets.
func (c *client) Open(ctx context.Context, query []byte) (*shards, error) {
	var trailer metadata.MD
	described, err := c.flight.GetFlightInfo(ctx,
		&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: query}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, c.fault(ctx, err, trailer)
	}
	out := &shards{}
	if out.schema, err = arrowflight.DeserializeSchema(described.GetSchema(), memory.DefaultAllocator); err != nil {
		return nil, fault.New(fault.Internal, "read the schema that %s sent: %w", c.name, err)
	}
	for _, endpoint := range described.GetEndpoint() {
		out.open = append(out.open, func() (*stream, error) { return c.get(ctx, endpoint.GetTicket()) })
	}
	return out, nil
}

// get redeems a ticket.
func (c *client) get(ctx context.Context, ticket *arrowflight.Ticket) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	calls, err := c.flight.DoGet(ctx, ticket)
	if err != nil {
		err = c.fault(ctx, err, nil) // which asks whether the user gave up
		cancel()
		return nil, err
	}
	s := &stream{client: c, ctx: ctx, cancel: cancel, calls: calls}
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
			s.failure = s.client.fault(s.ctx, err, s.calls.Trailer())
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

// Report returns what the server says of the stream. One without one, or with other rows than it
// says, is not whole.
func (s *stream) Report() (report, error) {
	if s.last == nil {
		return report{}, fault.New(fault.Unavailable, "the stream from %s ended without its report: rows may be missing", s.client.name)
	}
	r, err := parseReport(s.last)
	if err == nil && r.Rows != s.rows {
		err = fault.New(fault.Internal, "the server says that it sent %d rows, %d arrived", r.Rows, s.rows)
	}
	return r, err
}

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
		return e.WithRemedy("see that a server runs there: penstock serve")
	}
	return e
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
