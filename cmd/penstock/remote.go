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

// remote answers from a server, as any client would.
type remote struct {
	uri    string
	client arrowflight.Client
}

// dial makes a client for a URI. It connects with the first call.
func dial(uri string) (source, error) {
	target, err := dialed(uri)
	if err != nil {
		return nil, err
	}
	client, err := arrowflight.NewClientWithMiddleware(target, nil, nil,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(flight.DefaultMaxMessage)))
	if err != nil {
		return nil, fault.InvalidField("uri", "%q: %v", uri, err)
	}
	return &remote{uri: uri, client: client}, nil
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
	case scheme != "grpc" && scheme != "grpc+tcp" || err != nil:
		return "", fault.InvalidField("uri", "%q is not of the form grpc://host:port or grpc+unix:///path", uri)
	}
	return address, nil
}

// Close implements source.
func (r *remote) Close() error { return r.client.Close() }

// Datasets implements source.
func (r *remote) Datasets(ctx context.Context) ([]listed, error) {
	flights, err := r.client.ListFlights(ctx, &arrowflight.Criteria{})
	if err != nil {
		return nil, r.fault(ctx, err, nil)
	}
	var out []listed
	for {
		one, err := flights.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, r.fault(ctx, err, flights.Trailer())
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

// Explain implements source.
func (r *remote) Explain(ctx context.Context, query []byte) (string, error) {
	text, err := r.act(ctx, "explain", query)
	return string(text), err
}

// Verify implements source.
func (r *remote) Verify(ctx context.Context, query []byte) (*loader.Verification, error) {
	text, err := r.act(ctx, "verify", query)
	if err != nil {
		return nil, err
	}
	var found loader.Verification
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fault.New(fault.Internal, "read the report that %s sent: %w", r.uri, err)
	}
	if found.Plan == "" {
		return nil, fault.New(fault.Internal, "%s sent no report", r.uri)
	}
	return &found, nil
}

// act calls an action and returns its results, one after the other.
func (r *remote) act(ctx context.Context, name string, body []byte) ([]byte, error) {
	answers, err := r.client.DoAction(ctx, &arrowflight.Action{Type: name, Body: body})
	if err != nil {
		return nil, r.fault(ctx, err, nil)
	}
	var out []byte
	for {
		answer, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, r.fault(ctx, err, answers.Trailer())
		}
		out = append(out, answer.GetBody()...)
	}
}

// Open implements source. All shards are read from this server, whatever
// locations the endpoints name: any server with the same keys redeems them.
func (r *remote) Open(ctx context.Context, query []byte) (*shards, error) {
	var trailer metadata.MD
	described, err := r.client.GetFlightInfo(ctx,
		&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: query}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, r.fault(ctx, err, trailer)
	}
	out := &shards{}
	if out.schema, err = arrowflight.DeserializeSchema(described.GetSchema(), memory.DefaultAllocator); err != nil {
		return nil, fault.New(fault.Internal, "read the schema that %s sent: %w", r.uri, err)
	}
	for _, endpoint := range described.GetEndpoint() {
		out.open = append(out.open, func() (stream, error) { return r.get(ctx, endpoint.GetTicket()) })
	}
	return out, nil
}

// get redeems a ticket.
func (r *remote) get(ctx context.Context, ticket *arrowflight.Ticket) (stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	calls, err := r.client.DoGet(ctx, ticket)
	if err != nil {
		cancel()
		return nil, r.fault(ctx, err, nil)
	}
	s := &remoteStream{remote: r, ctx: ctx, cancel: cancel, calls: calls}
	if s.Reader, err = arrowflight.NewRecordReader(s); err != nil {
		cancel()
		if s.failure != nil {
			err = s.failure
		}
		return nil, err
	}
	return s, nil
}

// remoteStream is one DoGet.
type remoteStream struct {
	*arrowflight.Reader
	remote  *remote
	ctx     context.Context //nolint:containedctx // the call's, as long as the stream
	cancel  context.CancelFunc
	calls   arrowflight.FlightService_DoGetClient
	rows    int64
	last    json.RawMessage // the report
	failure error
}

// Recv implements arrowflight.DataStreamReader. Messages without data are not
// Arrow's: the last one has the report.
func (s *remoteStream) Recv() (*arrowflight.FlightData, error) {
	for {
		message, err := s.calls.Recv()
		if errors.Is(err, io.EOF) {
			return nil, err
		}
		if err != nil {
			s.failure = s.remote.fault(s.ctx, err, s.calls.Trailer())
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

// Next implements stream.
func (s *remoteStream) Next() bool {
	if !s.Reader.Next() {
		return false
	}
	s.rows += s.RecordBatch().NumRows()
	return true
}

// Err implements stream.
func (s *remoteStream) Err() error {
	if s.failure != nil {
		return s.failure
	}
	return s.Reader.Err()
}

// Release implements stream.
func (s *remoteStream) Release() {
	s.cancel()
	s.Reader.Release()
}

// Report implements stream. A stream without one, or with other rows than it
// says, is not whole.
func (s *remoteStream) Report() (report, error) {
	if s.last == nil {
		return report{}, fault.New(fault.Unavailable, "the stream from %s ended without its report: rows may be missing", s.remote.uri)
	}
	r, err := parseReport(s.last)
	if err == nil && r.Rows != s.rows {
		err = fault.New(fault.Internal, "the server says that it sent %d rows, %d arrived", r.Rows, s.rows)
	}
	return r, err
}

// fault makes one of our failures of a gRPC error and the trailer beside it.
func (r *remote) fault(ctx context.Context, err error, trailer metadata.MD) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if text := trailer.Get(flight.TrailerKey); len(text) > 0 {
		return parseDetails([]byte(text[0]))
	}
	s := status.Convert(err)
	e := fault.New(kindOf(s.Code()), "%s", s.Message())
	if e.Kind == fault.Unavailable {
		e.Op = "ask " + r.uri
		return e.WithRemedy("see that a server runs there: penstock serve")
	}
	return e
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
