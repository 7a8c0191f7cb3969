package passes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// maxMessage is the maximum size of a received message in bytes.
const maxMessage = 1 << 30

// Client receives streams without decoding them. It is safe for concurrent use.
type Client struct {
	Address string // of the server

	flight flight.Client
}

// Connect returns a client of the server at an address, which may still start.
func Connect(address string, more ...grpc.DialOption) (*Client, error) {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true)),
	}, more...)
	c, err := flight.NewClientWithMiddleware(address, nil, nil, options...)
	if err != nil {
		return nil, err
	}
	return &Client{Address: address, flight: c}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.flight.Close() }

// Report is the part of a stream's report that benchmarks use.
type Report struct {
	Rows    int64                    `json:"rows"`
	Staging map[string]StagingReport `json:"staging"`
}

// StagingReport has the counts of a staging table, and the bytes of its files that the stream read.
type StagingReport struct {
	Rows       int64 `json:"rows"`
	Matched    int64 `json:"matched"`
	Duplicates int64 `json:"duplicates"`
	BytesRead  int64 `json:"bytes_read"`
}

// Receive receives the messages of all endpoints of a query, one endpoint after the other, and
// calls each with every message but the report. It returns the report, of the last endpoint with
// the rows of all.
func (c *Client) Receive(ctx context.Context, query string, each func(*flight.FlightData) error) (Report, error) {
	planned, err := c.plan(ctx, query)
	if err != nil {
		return Report{}, err
	}
	var all Report
	for _, e := range planned.GetEndpoint() {
		stream, err := c.flight.DoGet(ctx, e.GetTicket())
		if err != nil {
			return Report{}, err
		}
		one, err := drain(stream, each)
		if err != nil {
			return Report{}, err
		}
		one.Rows += all.Rows
		all = one
	}
	if planned.GetTotalRecords() >= 0 && planned.GetTotalRecords() != all.Rows {
		return Report{}, fmt.Errorf("received %d rows, but %d were planned", all.Rows, planned.GetTotalRecords())
	}
	return all, nil
}

// drain receives a stream's messages, of which the last one is the report.
func drain(stream flight.FlightService_DoGetClient, each func(*flight.FlightData) error) (Report, error) {
	var last *flight.FlightData
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Report{}, err
		}
		if last != nil {
			if err := each(last); err != nil {
				return Report{}, err
			}
		}
		last = message
	}
	var end struct {
		Report *Report `json:"report"`
	}
	if err := json.Unmarshal(last.GetAppMetadata(), &end); err != nil {
		return Report{}, err
	}
	if end.Report == nil {
		return Report{}, errors.New("the stream ended without a report")
	}
	return *end.Report, nil
}

// Columns returns the names of the columns of a query's batches.
func (c *Client) Columns(ctx context.Context, query string) ([]string, error) {
	planned, err := c.plan(ctx, query)
	if err != nil {
		return nil, err
	}
	schema, err := flight.DeserializeSchema(planned.GetSchema(), memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	return names, nil
}

// Plan requests the endpoints of a query, and returns how long that took.
func (c *Client) Plan(ctx context.Context, query string) (time.Duration, error) {
	begun := time.Now()
	_, err := c.plan(ctx, query)
	return time.Since(begun), err
}

func (c *Client) plan(ctx context.Context, query string) (*flight.FlightInfo, error) {
	return c.flight.GetFlightInfo(ctx, &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(query)})
}
