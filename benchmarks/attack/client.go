package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/failure"
)

// maxMessage is the largest message that a client accepts, in bytes.
const maxMessage = 1 << 30

// query is a query in the form that servers read.
type query struct {
	Dataset   any             `json:"dataset"`
	Columns   []string        `json:"columns,omitempty"`
	Filter    string          `json:"filter,omitempty"`
	Lanes     int             `json:"lanes,omitempty"`
	Shard     *shard          `json:"shard,omitempty"`
	BatchRows int             `json:"batch_rows,omitempty"`
	Cursor    json.RawMessage `json:"cursor,omitempty"`
}

type shard struct {
	Index int `json:"index"`
	Of    int `json:"of"`
}

// dialing are the settings of a client's connection.
type dialing struct {
	window int32  // bytes that it takes of a stream before it reads; 0: gRPC's default
	from   string // its address; "": any
	as     access
}

// client is a connection to a server.
type client struct {
	connection *grpc.ClientConn
	flight     arrowflight.Client
}

func dial(address string, d dialing) (*client, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(d.as.transport()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
	if d.as.token != "" {
		options = append(options, grpc.WithPerRPCCredentials(d.as))
	}
	if d.window > 0 {
		options = append(options, grpc.WithInitialWindowSize(d.window), grpc.WithInitialConnWindowSize(d.window))
	}
	if d.from != "" {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(d.from)}}
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	}
	connection, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	return &client{connection: connection, flight: arrowflight.NewClientFromConn(connection, nil)}, nil
}

func (c *client) close() { _ = c.connection.Close() }

// planned is a server's answer to a query.
type planned struct {
	tickets [][]byte
	rows    int64 // -1: not known
}

// plan gets the tickets of a query.
func (c *client) plan(ctx context.Context, q query) (planned, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return planned{}, err
	}
	var trailer metadata.MD
	answer, err := c.flight.GetFlightInfo(ctx, &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: text}, grpc.Trailer(&trailer))
	if err != nil {
		return planned{}, failed("plan", err, trailer)
	}
	out := planned{rows: answer.GetTotalRecords()}
	for _, endpoint := range answer.GetEndpoint() {
		out.tickets = append(out.tickets, endpoint.GetTicket().GetTicket())
	}
	if len(out.tickets) == 0 {
		return planned{}, errors.New("the plan has no ticket")
	}
	return out, nil
}

// healthy calls the server's health check.
func (c *client) healthy(ctx context.Context) error {
	answer, err := grpc_health_v1.NewHealthClient(c.connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("the server is %s", answer.GetStatus())
	}
	return err
}

// refusal is an error that a server returned.
type refusal struct {
	op     string
	code   codes.Code
	kind   string // of the details; "" without
	text   string // the message and all of the details
	remedy string
	after  time.Duration // when to try again; 0: not said
}

func (f *refusal) Error() string { return f.op + ": " + f.code.String() + ": " + f.text }

// failed converts a gRPC error and its trailer into a refusal.
func failed(op string, err error, trailer metadata.MD) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	s := status.Convert(err)
	f := &refusal{op: op, code: s.Code(), text: s.Message()}
	for _, text := range trailer.Get(failure.TrailerKey) {
		var d struct {
			Kind         string `json:"kind"`
			Remedy       string `json:"remedy"`
			RetryAfterMS int64  `json:"retry_after_ms"`
		}
		if json.Unmarshal([]byte(text), &d) == nil {
			f.kind, f.remedy, f.after = d.Kind, d.Remedy, time.Duration(d.RetryAfterMS)*time.Millisecond
		}
	}
	return f
}

// isKind reports whether an error is a refusal of one of the kinds. Without details, as after a
// lost connection, the gRPC code decides.
func isKind(err error, kinds ...string) bool {
	var f *refusal
	if !errors.As(err, &f) {
		return false
	}
	kind := f.kind
	if kind == "" {
		kind = map[codes.Code]string{
			codes.Unavailable: "unavailable", codes.ResourceExhausted: "exhausted", codes.InvalidArgument: "invalid", codes.NotFound: "not found",
		}[f.code]
	}
	for _, k := range kinds {
		if strings.EqualFold(strings.ReplaceAll(kind, "_", " "), k) {
			return true
		}
	}
	return false
}

// fits returns the batch size, in rows, that a refusal says would fit. It looks in the remedy and
// then in the message; 0 if neither has one.
func fits(f *refusal, asked int) int {
	named := regexp.MustCompile(`batch_rows\D{0,24}?(\d+)|(\d+) rows`)
	for _, text := range []string{f.remedy, f.text} {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(m[1] + m[2]); err == nil && n > 0 && n < asked {
				return n
			}
		}
	}
	return 0
}
