// Package client calls a Flight server on behalf of the commands. It uses the same protocol as any
// other client.
//
// Queries are JSON, and only the server checks them. If the context of a call has ended, the call
// returns the context's error. Every other failure is a *fault.Error. It is decoded from the
// details that the server sends, or explains why no Penstock server answered. A stream fails if it
// ends without a report, or if its number of rows differs from the number in the report, so that no
// row is lost silently.
package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/flight/silence"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan/coverage"
)

// Client calls one server.
type Client struct {
	flight arrowflight.Client
	name   string       // the name of the server in error messages
	end    func() error // shuts down the server if it is in this process; otherwise nil

	target    string      // the target of the gRPC connection
	tls       *tls.Config // nil: connections are not encrypted
	versions  *versions
	maxAnswer int // bytes of all results of an action
}

// InProcess reports whether the server is in this process, where the client has all rights.
func (c *Client) InProcess() bool { return c.end != nil }

// Dial returns a client of the server at a URI. The client connects when the first call is made.
// version is the version of this program. If the server has a different version, and this may
// explain a failure, the failure's remedy names both versions.
func Dial(uri string, security Security, version string) (*Client, error) {
	return DialAddress(uri, "", security, version)
}

// DialAddress is Dial for one of the IP addresses of the URI's host. The server's certificate is that of the host.
func DialAddress(uri, address string, security Security, version string) (*Client, error) {
	target, encrypted, err := targetOf(uri)
	if err != nil {
		return nil, err
	}
	options, config, err := security.options(target, encrypted)
	if err != nil {
		return nil, err
	}
	if address != "" {
		host, port, _ := net.SplitHostPort(target) // targetOf has checked it
		target = net.JoinHostPort(address, port)
		options = append(options, grpc.WithAuthority(host))
		if config != nil {
			config.ServerName = host
		}
	}
	c, err := connect(target, flight.DefaultMaxMessage, options...)
	if err != nil {
		return nil, fault.InvalidField("uri", "%q: %v", fault.RedactURI(uri), err)
	}
	c.name, c.target, c.tls, c.versions.own = uri, target, config, version
	return c, nil
}

// Local returns a client of a server in this process. The client connects with the function dial,
// and accepts messages of at most maxMessage bytes. Close also calls end, which shuts the server
// down.
func Local(dial func(context.Context) (net.Conn, error), maxMessage int, end func() error) (*Client, error) {
	c, err := connect("passthrough:///in-process", maxMessage, // with the scheme passthrough, gRPC does not resolve the name
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	if err != nil {
		return nil, errors.Join(err, end())
	}
	c.name, c.end = "the server in this process", end
	return c, nil
}

// connect returns a client of a gRPC target that accepts messages, and whole answers to
// actions, of up to maxMessage bytes.
func connect(target string, maxMessage int, options ...grpc.DialOption) (*Client, error) {
	heard := &versions{}
	options = append(slices.Concat(options, heard.options(), silence.DialOptions()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	c, err := arrowflight.NewClientWithMiddleware(target, nil, nil, options...)
	if err != nil {
		return nil, fault.New(fault.Internal, "make a client: %w", err)
	}
	return &Client{flight: c, versions: heard, maxAnswer: maxMessage}, nil
}

// Name returns the name of the server in error messages: its URI, or that it is in this process.
func (c *Client) Name() string { return c.name }

// Close closes the connection. If the server is in this process, Close also shuts it down.
func (c *Client) Close() error {
	err := c.flight.Close()
	if c.end != nil {
		err = errors.Join(err, c.end())
	}
	return err
}

// Dataset describes a dataset with the facts that ListFlights returns.
type Dataset struct {
	Name    string
	Rows    int64 // the number of rows; -1: not known before the rows are read
	Schema  *arrow.Schema
	Staging []string
	Err     *fault.Error // why the dataset cannot be read; nil if it can be read
}

// Datasets lists the datasets of the server, including those that cannot be read.
func (c *Client) Datasets(ctx context.Context) ([]Dataset, error) {
	flights, err := c.flight.ListFlights(ctx, &arrowflight.Criteria{})
	if err != nil {
		return nil, c.fault(ctx, err, nil)
	}
	var out []Dataset
	for {
		one, err := flights.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, c.fault(ctx, err, flights.Trailer())
		}
		out = append(out, datasetOf(one))
	}
}

// datasetOf decodes one answer of ListFlights.
func datasetOf(f *arrowflight.FlightInfo) Dataset {
	one := Dataset{Name: strings.Join(f.GetFlightDescriptor().GetPath(), "."), Rows: f.GetTotalRecords()}
	var about struct {
		Pin struct {
			Staging map[string]json.RawMessage `json:"staging"`
		} `json:"pin"`
		Error json.RawMessage `json:"error"`
	}
	err := json.Unmarshal(f.GetAppMetadata(), &about)
	if err == nil && about.Error != nil {
		one.Err = failure.Parse(about.Error)
		return one
	}
	one.Staging = slices.Sorted(maps.Keys(about.Pin.Staging))
	if one.Schema, err = arrowflight.DeserializeSchema(f.GetSchema(), memory.DefaultAllocator); err != nil {
		one.Err = fault.New(fault.Internal, "read its schema: %w", err)
	}
	return one
}

// Explain returns the plan of a query as text. The text is a summary of about one screen or, with
// splits, the whole plan.
func (c *Client) Explain(ctx context.Context, query []byte, splits bool) (string, error) {
	action := "explain"
	if splits {
		action = "explain_splits"
	}
	text, err := c.act(ctx, action, query)
	return string(text), err
}

// Shape returns how the rows of a query are spread, and what the last streams of its dataset matched.
func (c *Client) Shape(ctx context.Context, query []byte) (out flight.PlanShape, err error) {
	return out, c.actJSON(ctx, "explain_shape", query, &out)
}

// Scale returns what the trainers of a load need to read a query. The load has the form that scale.Parse reads.
func (c *Client) Scale(ctx context.Context, query []byte, load string) (out flight.PlanScale, err error) {
	body := struct {
		Query json.RawMessage `json:"query"`
		Scale string          `json:"scale"`
	}{query, load}
	return out, c.actJSON(ctx, "explain_scale", body, &out)
}

// Coverage counts the rows of a query by partition and bucket, without reading data.
func (c *Client) Coverage(ctx context.Context, query []byte) (out coverage.Coverage, err error) {
	return out, c.actJSON(ctx, "explain_coverage", query, &out)
}

// Propose lays out the staging table of a new feature.
func (c *Client) Propose(ctx context.Context, request decode.ProposeCommand) (out flight.Proposal, err error) {
	return out, c.actJSON(ctx, "propose", request, &out)
}

// Verify returns the server's report on the keys of a query's tables. It calls report with each
// message about progress that the server sends.
func (c *Client) Verify(ctx context.Context, query []byte, report func(progress.Message)) (*loader.Verification, error) {
	var found loader.Verification
	if err := c.Change(ctx, "verify_progress", query, &found, report); err != nil {
		return nil, err
	}
	if found.Plan == "" {
		return nil, c.unread("%s sent no report", c.name)
	}
	return &found, nil
}

// maxListed is the maximum number of streams, and of plans, in a status.
const maxListed = 1 << 16

// Status returns the status of the server twice: decoded, and as the JSON that the server sent.
func (c *Client) Status(ctx context.Context) (out flight.ServerStatus, sent json.RawMessage, err error) {
	sent, err = c.act(ctx, "status", nil)
	if err != nil {
		return out, nil, err
	}
	var listed struct{ Streams, Planning []json.RawMessage } // a decoded stream may take 100 times the memory of its text
	if err := json.Unmarshal(sent, &listed); err != nil {
		return out, nil, fault.New(fault.Internal, "read what %s sent: %w", c.name, err)
	}
	if n := max(len(listed.Streams), len(listed.Planning)); n > maxListed {
		return out, nil, fault.New(fault.Internal, "%s sent a status with %d entries, and this program reads at most %d", c.name, n, maxListed)
	}
	if err := json.Unmarshal(sent, &out); err != nil {
		return out, nil, fault.New(fault.Internal, "read what %s sent: %w", c.name, err)
	}
	if out.V != 1 {
		return out, nil, fault.New(fault.Internal, "%s sent a status of version %d, and this program reads version 1", c.name, out.V).
			WithRemedy("use a program of the server's version; --json prints any version")
	}
	return out, sent, nil
}

// CacheList lists the content of the server's cache.
func (c *Client) CacheList(ctx context.Context) (out flight.CacheList, err error) {
	return out, c.actJSON(ctx, "cache_ls", nil, &out)
}

// CacheDrop drops the cached columns of a table. If table is "", it drops the whole cache.
func (c *Client) CacheDrop(ctx context.Context, table string) (out flight.CacheDropped, err error) {
	return out, c.actJSON(ctx, "cache_drop", decode.CacheDropCommand{Table: table}, &out)
}

// actJSON calls an action whose body and result are JSON. A nil body is sent as an empty body.
func (c *Client) actJSON(ctx context.Context, name string, body, into any) error {
	sent, err := bodyOf(name, body)
	if err != nil {
		return err
	}
	text, err := c.act(ctx, name, sent)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.unread("read what %s sent: %w", c.name, err)
	}
	return nil
}

// bodyOf returns the body of an action as JSON. For nil, it returns an empty body.
func bodyOf(action string, body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	if text, ok := body.([]byte); ok {
		return text, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fault.New(fault.Internal, "write the body of action %s: %w", action, err)
	}
	return text, nil
}

// unread returns the error for a server's answer that cannot be read.
func (c *Client) unread(format string, args ...any) error {
	return c.versions.compared(fault.New(fault.Internal, format, args...))
}

// act calls an action and returns its results, concatenated. It removes the name of the action from
// the beginning of a failure's message, because the user knows the name from the command.
func (c *Client) act(ctx context.Context, name string, body []byte) ([]byte, error) {
	var out []byte
	err := c.each(ctx, name, body, func(answer []byte) error {
		if len(out)+len(answer) > c.maxAnswer {
			return fault.New(fault.Internal, "%s sent more than %s in answer to %s", c.name, fault.Size(int64(c.maxAnswer)), name)
		}
		out = append(out, answer...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// each calls an action, and calls take with each result of the action.
func (c *Client) each(ctx context.Context, name string, body []byte, take func([]byte) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	answers, err := c.flight.DoAction(ctx, &arrowflight.Action{Type: name, Body: body})
	if err != nil {
		return trimName(c.fault(ctx, err, nil), name)
	}
	for {
		answer, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return trimName(c.fault(ctx, err, answers.Trailer()), name)
		}
		if err := take(answer.GetBody()); err != nil {
			return err
		}
	}
}

// Plan returns the summary of a query's plan (docs/spec/wire.md) and the schema of its
// batches.
func (c *Client) Plan(ctx context.Context, query []byte) (summary json.RawMessage, schema *arrow.Schema, err error) {
	described, schema, err := c.describe(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	return described.GetAppMetadata(), schema, nil
}

// describe returns the FlightInfo of a query, and the schema in it.
func (c *Client) describe(ctx context.Context, query []byte) (*arrowflight.FlightInfo, *arrow.Schema, error) {
	var trailer metadata.MD
	described, err := c.flight.GetFlightInfo(ctx,
		&arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: query}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, nil, c.fault(ctx, err, trailer)
	}
	schema, err := arrowflight.DeserializeSchema(described.GetSchema(), memory.DefaultAllocator)
	if err != nil {
		return nil, nil, c.unread("read the schema that %s sent: %w", c.name, err)
	}
	return described, schema, nil
}

// Open plans a query and returns the rows of its shards. Nothing is read before the first Next.
// With `wire: auto`, each stream could choose a different wire. Open then asks for plain batches,
// so that the batches of all streams have one schema. It reads all shards from this server, even if
// the endpoints name other locations, because a server can redeem all tickets that were signed with
// its keys.
func (c *Client) Open(ctx context.Context, query []byte) (*Shards, error) {
	query, wire := fixedWire(query)
	described, schema, err := c.describe(ctx, query)
	if err != nil {
		return nil, err
	}
	out := &Shards{Schema: schema, Grouped: wire == "grouped", Planned: described.GetTotalRecords()}
	var rest rest
	if !c.InProcess() && !out.Grouped {
		rest = restOf(query)
	}
	for _, endpoint := range described.GetEndpoint() {
		one := request{ticket: endpoint.GetTicket(), grouped: out.Grouped, plan: planOf(described), rest: rest}
		out.pending = append(out.pending, func() (*stream, error) { return c.get(ctx, one) })
	}
	return out, nil
}

// fixedWire returns the wire that a query names. If the wire is auto, it removes the wire from the
// query, and returns "" as the wire. If a query cannot be decoded, fixedWire returns it unchanged,
// and the server will report the error.
func fixedWire(query []byte) (fixed []byte, wire string) {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(query, &fields) != nil || json.Unmarshal(fields["wire"], &wire) != nil || wire != "auto" {
		return query, wire
	}
	delete(fields, "wire")
	if text, err := json.Marshal(fields); err == nil {
		return text, ""
	}
	return query, wire
}
