package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	flightgen "github.com/apache/arrow-go/v18/arrow/flight/gen/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/flight/ticket/tickettest"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon returns the time of the tests' clock.
func noon() time.Time { return time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC) }

// keysOf returns a function that returns the keys of package tickettest.
func keysOf(t testing.TB) func() *ticket.Keys {
	keys := tickettest.Keys(t)
	return func() *ticket.Keys { return keys }
}

// trainingRows is the number of training rows. It is no multiple of a batch size in the
// tests.
const trainingRows = 1009

// world has tables in memory, the dataset "homefeed" of them, and the dataset "gone", whose
// table does not exist.
type world struct {
	*scenario.World
	budget   *budget.Budget
	datasets []dataset.Dataset
	tables   map[string]*catalog.Table
}

func newWorld(t testing.TB) *world {
	w := &world{World: scenario.NewWorld(), budget: budget.New(1 << 20), tables: map[string]*catalog.Table{}}
	t.Cleanup(w.Release)
	var lines []string
	for i := range trainingRows {
		lines = append(lines, fmt.Sprintf("r%d %d %g", i%101, i, float64(i)/4))
	}
	w.table(t, "ml.impressions", "request_id:string item:long! score:float", "bucket(4,request_id)", lines)
	lines = nil
	for i := range 90 {
		lines = append(lines, fmt.Sprintf("r%d c%d [%d,null,%d]", i, i%7, i, i*i))
	}
	w.table(t, "features.history", "req:string country:string pins:list<long>", "bucket(6,req)", lines)
	homefeed := dataset.Dataset{
		Name: "homefeed", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.impressions"},
		Staging: []dataset.Staging{{
			Table: "features.history", Name: "history", Key: []dataset.KeyPair{{Training: "request_id", Staging: "req"}},
			Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
		}},
	}
	gone := dataset.Dataset{Name: "gone", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.gone"}}
	w.datasets = []dataset.Dataset{homefeed, gone}
	return w
}

func (w *world) table(t testing.TB, name, header, partitions string, lines []string) {
	fields, err := scenario.Fields(header)
	require.NoError(t, err)
	spec, err := scenario.Spec(partitions, fields)
	require.NoError(t, err)
	table, err := w.NewTable(name, fields, spec)
	require.NoError(t, err)
	w.tables[name] = table
	w.add(t, name, lines)
}

// add commits rows to a table.
func (w *world) add(t testing.TB, name string, lines []string) {
	rows, err := scenario.Rows(w.tables[name].Fields, lines)
	require.NoError(t, err)
	defer rows.Release()
	require.NoError(t, w.Append(w.tables[name], 0, rows, 0))
}

func (w *world) loader() *loader.Loader {
	return loader.New(loader.Options{Datasets: w.datasets, Catalog: w.World, Scan: w.Scan, Budget: w.budget, Memory: batch.NewAllocator()})
}

// altered is a loader with some of its functions replaced.
type altered struct {
	Loader
	plan  func(dataset.Query) (loader.Planned, error)
	asked func(loader.PlanRequest) // before the query is planned
	open  func(context.Context, loader.Planned, loader.StreamOptions) (loader.Stream, error)
	count func(context.Context, loader.Admit) (*dataset.Counts, error)
}

func (a altered) Count(ctx context.Context, p loader.Planned, r loader.StreamOptions, admit loader.Admit) (*dataset.Counts, error) {
	if a.count != nil {
		return a.count(ctx, admit)
	}
	return a.Loader.Count(ctx, p, r, admit)
}

func (a altered) PlanFor(ctx context.Context, request loader.PlanRequest) (loader.Planned, error) {
	if a.asked != nil {
		a.asked(request)
	}
	if a.plan != nil {
		return a.plan(request.Query)
	}
	return a.Loader.PlanFor(ctx, request)
}

func (a altered) Open(ctx context.Context, p loader.Planned, r loader.StreamOptions) (loader.Stream, error) {
	if a.open != nil {
		return a.open(ctx, p, r)
	}
	return a.Loader.Open(ctx, p, r)
}

// served is a running server with a client.
type served struct {
	arrowflight.Client
	server  *Server
	address string
	ended   chan StreamEnd
}

// serve runs a server on the loopback until the test ends.
func serve(t testing.TB, options Options) *served {
	if options.Keys == nil {
		options.Keys = keysOf(t)
	}
	if options.Clock == nil {
		options.Clock = noon
	}
	s := &served{ended: make(chan StreamEnd, 64)}
	if options.Observer.StreamEnded == nil {
		options.Observer.StreamEnded = func(e StreamEnd) { s.ended <- e }
	}
	s.server = New(options)
	s.address = flighttest.Serve(t, s.server)
	s.Client = dial(t, s.address)
	return s
}

// serveWorld serves tables in memory.
func serveWorld(t testing.TB, options Options) *served {
	t.Helper()
	w := newWorld(t)
	options.Loader = w.loader()
	return serve(t, options)
}

func dial(t testing.TB, address string) arrowflight.Client {
	return flighttest.Dial(t, address, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(DefaultMaxMessage)))
}

// connect connects to a server without the Flight client.
func (s *served) connect(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// openCall sends the headers of a call, without its request.
func openCall(ctx context.Context, conn *grpc.ClientConn, method string) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+flightgen.FlightService_ServiceDesc.ServiceName+"/"+method)
}

// got is the result of one DoGet, as seen by a client without code of this package.
type got struct {
	schema  *arrow.Schema
	rows    [][]any
	sizes   []int
	cursors []json.RawMessage
	report  *stream.Report
}

// peeled passes messages with Arrow data to the Arrow library's reader, and keeps the metadata.
type peeled struct {
	stream arrowflight.FlightService_DoGetClient
	got    *got
}

func (p peeled) Recv() (*arrowflight.FlightData, error) {
	for {
		m, err := p.stream.Recv()
		if err != nil || len(m.GetDataHeader()) > 0 {
			if len(m.GetAppMetadata()) > 0 {
				p.got.cursors = append(p.got.cursors, m.GetAppMetadata())
			}
			return m, err
		}
		var last struct {
			Report struct {
				stream.Report
				Cursor json.RawMessage `json:"cursor"`
			}
		}
		if err := json.Unmarshal(m.GetAppMetadata(), &last); err != nil {
			return nil, err
		}
		p.got.report = &last.Report.Report
		if p.got.report.Cursor, err = decode.Cursor(last.Report.Cursor); err != nil {
			return nil, err
		}
	}
}

// read redeems a ticket and reads its stream to the end.
func read(ctx context.Context, client arrowflight.Client, ticket *arrowflight.Ticket, options ...grpc.CallOption) (got, error) {
	var g got
	stream, err := client.DoGet(ctx, ticket, options...)
	if err != nil {
		return g, err
	}
	reader, err := arrowflight.NewRecordReader(peeled{stream, &g})
	if err != nil {
		return g, err
	}
	defer reader.Release()
	g.schema = reader.Schema()
	for reader.Next() {
		if err := scenario.CheckCategories(reader.RecordBatch()); err != nil {
			return g, err
		}
		g.rows = append(g.rows, scenario.Values(reader.RecordBatch())...)
		g.sizes = append(g.sizes, int(reader.RecordBatch().NumRows()))
	}
	if err := reader.Err(); err != nil && !errors.Is(err, io.EOF) {
		return g, err
	}
	return g, nil
}

// readAll reads all endpoints of a query, one after the other.
func (s *served) readAll(t testing.TB, query string) []got {
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
	require.NoError(t, err)
	var all []got
	for _, e := range answer.GetEndpoint() {
		g, err := read(context.Background(), s.Client, e.GetTicket())
		require.NoError(t, err)
		all = append(all, g)
	}
	return all
}

// ticket returns the one ticket of a query.
func (s *served) ticket(t testing.TB, query string) *arrowflight.Ticket {
	answer, err := s.GetFlightInfo(context.Background(), flighttest.Command(query))
	require.NoError(t, err)
	require.Len(t, answer.GetEndpoint(), 1)
	return answer.GetEndpoint()[0].GetTicket()
}

// flightInfoFailure calls GetFlightInfo, which must fail.
func (s *served) flightInfoFailure(t testing.TB, d *arrowflight.FlightDescriptor) (codes.Code, failure.Details) {
	var trailer metadata.MD
	_, err := s.GetFlightInfo(context.Background(), d, grpc.Trailer(&trailer))
	return flighttest.FailureOf(t, err, trailer)
}

// getFailure redeems a ticket, whose stream must fail.
func (s *served) getFailure(t testing.TB, ticket *arrowflight.Ticket) (got, codes.Code, failure.Details) {
	var trailer metadata.MD
	stream, err := s.DoGet(context.Background(), ticket, grpc.Trailer(&trailer))
	require.NoError(t, err)
	var g got
	for err == nil {
		_, err = peeled{stream, &g}.Recv()
	}
	require.NotErrorIs(t, err, io.EOF)
	code, d := flighttest.FailureOf(t, err, trailer)
	return g, code, d
}

// fillQueue redeems a ticket of a server with one slot, which is taken, until no more streams may wait for it.
func (s *served) fillQueue(ctx context.Context, t testing.TB, ticket *arrowflight.Ticket) {
	const all = 4
	for range all {
		_, err := s.DoGet(ctx, ticket)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.server.Waiting() == all }, time.Minute, time.Millisecond)
}

// canned is a stream of batches from a function, which may fail, block or never end.
type canned struct {
	next     func(n int) (arrow.RecordBatch, error) // nil, nil: the end
	report   func(stream.Report) stream.Report
	batch    arrow.RecordBatch
	n        int
	rows     int64
	err      error
	released func()
	park     func(pressed bool) bool // nil: it never parks
	setBack  func() bool             // nil: it cannot be set back
	cursor   dataset.Cursor
}

func (c *canned) Retain() {}

func (c *canned) Begin() error           { return nil }
func (c *canned) Park(pressed bool) bool { return c.park != nil && c.park(pressed) }

func (c *canned) SetBack() bool {
	if c.setBack == nil || !c.setBack() {
		return false
	}
	c.err = nil
	return true
}

func (c *canned) Release() {
	if c.released != nil {
		c.released()
	}
}

func (c *canned) Schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
}

func (c *canned) Next() bool {
	c.batch, c.err = c.next(c.n)
	if c.batch == nil || c.err != nil {
		return false
	}
	c.n++
	c.rows += c.batch.NumRows()
	return true
}

func (c *canned) RecordBatch() arrow.RecordBatch { return c.batch }
func (c *canned) Record() arrow.RecordBatch      { return c.batch }
func (c *canned) Err() error                     { return c.err }

func (c *canned) BatchRows() int64 { return c.batch.NumRows() }

func (c *canned) Cursor() dataset.Cursor {
	c.cursor.Step = int64(c.n)
	return c.cursor
}

func (c *canned) Report() stream.Report {
	r := stream.Report{Rows: c.rows, Batches: int64(c.n), Steps: int64(c.n), Cursor: c.Cursor()}
	if c.report != nil {
		return c.report(r)
	}
	return r
}

// numbers returns a batch of n rows for canned streams.
func numbers(n int) arrow.RecordBatch {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range n {
		b.Append(int64(i))
	}
	column := b.NewArray()
	defer column.Release()
	return array.NewRecordBatch((&canned{}).Schema(), []arrow.Array{column}, int64(n))
}

// opens returns a loader that opens canned streams.
func opens(under Loader, c func(ctx context.Context) *canned) Loader {
	return altered{Loader: under, open: func(ctx context.Context, p loader.Planned, _ loader.StreamOptions) (loader.Stream, error) {
		made := c(ctx)
		made.cursor = p.Cursor()
		made.cursor.Shard, made.cursor.At = dataset.Shard{Of: 1}, []dataset.Position{{}}
		return made, nil
	}}
}

func fails(kind fault.Kind) *fault.Error {
	return fault.New(kind, "it did not work").WithRemedy("try %s", strings.ToUpper(kind.String()))
}
