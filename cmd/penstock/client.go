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
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

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

// defaultPort is where a server listens that was told nothing else.
const defaultPort = "8815"

// dialed returns the gRPC target of a URI.
func dialed(uri string) (string, error) {
	scheme, address, found := strings.Cut(uri, "://")
	if !found {
		scheme, address = "grpc", uri
	}
	if address != "" && scheme != "grpc+unix" && (strings.HasSuffix(address, "]") || !strings.Contains(address, ":")) {
		address += ":" + defaultPort
	}
	_, port, err := net.SplitHostPort(address)
	switch {
	case scheme == "grpc+tls":
		return "", fault.InvalidField("uri", "this program does not speak TLS, and penstock serve does not serve it").
			WithRemedy("write grpc://%s, of the server itself; a proxy that adds TLS is for clients in Python and other languages", fault.Redact(address))
	case scheme == "grpc+unix" && filepath.IsAbs(address):
		return (&url.URL{Scheme: "unix", Path: address}).String(), nil
	case scheme != "grpc+unix" && strings.Contains(address, "@"):
		return "", fault.InvalidField("uri", "%q names a user, and this version takes no credentials", fault.RedactURI(uri)).
			WithRemedy("use grpc://host:port")
	case scheme != "grpc" && scheme != "grpc+tcp" || err != nil:
		e := fault.InvalidField("uri", "%q is not of the form grpc://host:port or grpc+unix:///path", fault.RedactURI(uri))
		if err == nil && isPort(port) {
			return "", e.WithRemedy("write grpc://%s", address)
		}
		return "", e.WithRemedy("write grpc://127.0.0.1:8815 for a server on this machine, or what penstock serve prints first")
	case scheme != "grpc+unix" && !isPort(port):
		return "", fault.InvalidField("uri", "the port of %q is not a number from 1 to 65535", fault.RedactURI(uri)).
			WithRemedy("write grpc://127.0.0.1:8815 for a server on this machine, or what penstock serve prints first")
	}
	return address, nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
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

// plannedJSON is a plan as scripts read it.
type plannedJSON struct {
	Plan    json.RawMessage `json:"plan"` // the summary that FlightInfo carries (docs/spec/wire.md)
	Columns []columnJSON    `json:"columns"`
}

// Planned returns the summary of a query's plan.
func (c *client) Planned(ctx context.Context, query []byte) (plannedJSON, error) {
	described, schema, err := c.describe(ctx, query)
	if err != nil {
		return plannedJSON{}, err
	}
	return plannedJSON{Plan: described.GetAppMetadata(), Columns: columnsJSON(schema)}, nil
}

// describe asks for a query's endpoints, and the schema of their batches.
func (c *client) describe(ctx context.Context, query []byte) (*arrowflight.FlightInfo, *arrow.Schema, error) {
	var trailer metadata.MD
	described, err := c.flight.GetFlightInfo(ctx,
		&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: query}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, nil, c.fault(ctx, err, trailer)
	}
	schema, err := arrowflight.DeserializeSchema(described.GetSchema(), memory.DefaultAllocator)
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "read the schema that %s sent: %w", c.name, err)
	}
	return described, schema, nil
}

// Open opens the shards that a query asks for, to be read one after the other.
// Nothing is read before the first Next. All are read from this server,
// whatever locations the endpoints name: any server with the same keys redeems
// their tickets.
func (c *client) Open(ctx context.Context, query []byte) (*shards, error) {
	described, schema, err := c.describe(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &shards{schema: schema, grouped: wireOf(query) == "grouped"}
	for _, endpoint := range described.GetEndpoint() {
		out.open = append(out.open, func() (*stream, error) { return c.get(ctx, endpoint.GetTicket(), out.grouped) })
	}
	return out, nil
}
