package flight

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
)

const (
	descriptorPath    = arrowflight.DescriptorPATH
	descriptorCommand = arrowflight.DescriptorCMD
)

// unknown is a number of rows, steps or bytes that is not known before reading.
const unknown = -1

// PlanSummary is the app_metadata of a FlightInfo. Rows and steps are those of the whole plan,
// from its start and over all shards; total_records counts the rows of the listed endpoints.
type PlanSummary struct {
	V         int         `json:"v"`
	Plan      string      `json:"plan"`
	Pin       dataset.Pin `json:"pin"`
	Lanes     int         `json:"lanes"`
	Shards    int         `json:"shards"`
	BatchRows int         `json:"batch_rows,omitempty"`
	// BatchRequests replaces BatchRows if batches consist of requests.
	BatchRequests int    `json:"batch_requests,omitempty"`
	Rows          int64  `json:"rows"`         // -1 is unknown
	RowsUnknown   string `json:"rows_unknown"` // why; "" if known
	Steps         int64  `json:"steps"`        // -1 is unknown
	Splits        int    `json:"splits"`       // -1: the client may not read all rows
	// Sample is the canonical sample of the query, so that a trainer can weight rows by it;
	// omitted if all rows are read.
	Sample json.RawMessage `json:"sample,omitempty"`
	// Since is the snapshot after which the rows were appended; omitted if all rows are
	// read.
	Since int64 `json:"since,omitempty"`
	// Computed has a digest of the expressions of each computed column of the query, by name; omitted if there are none.
	Computed map[string]string `json:"computed,omitempty"`
	// LocalSocket is the path of the socket for batches in mapped memory; omitted if there is none.
	LocalSocket string `json:"local_socket,omitempty"`
}

// broken is the app_metadata of a dataset that cannot be resolved.
type broken struct {
	V     int             `json:"v"`
	Error failure.Details `json:"error"`
}

// GetFlightInfo implements arrowflight.FlightServer.
func (s *service) GetFlightInfo(ctx context.Context, descriptor *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	p, err := s.planDescriptor(ctx, call.Of(ctx), descriptor)
	if err != nil {
		return nil, err
	}
	flightInfo, err := s.withEndpoints(ctx, p, descriptor)
	return flightInfo, s.guard.Disclosed(ctx, p.access, err)
}

// withEndpoints describes a plan, with endpoints.
func (s *service) withEndpoints(ctx context.Context, p planned, descriptor *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	if err := s.count(ctx, &p); err != nil {
		return nil, err
	}
	flightInfo, err := s.flightInfo(p, descriptor)
	if err != nil {
		return nil, err
	}
	if p.Query.Endpoints.BySplits() || len(p.shards()) > manyTickets {
		if err := p.access.Call.Slot.EnterPlan(ctx); err != nil {
			return nil, err
		}
	}
	if p.Query.Endpoints.BySplits() {
		flightInfo.Endpoint, err = s.tickets.splitEndpoints(ctx, p)
		flightInfo.Ordered = true
		return flightInfo, err
	}
	flightInfo.Endpoint, err = s.tickets.endpoints(ctx, p)
	flightInfo.Ordered = len(flightInfo.GetEndpoint()) == 1
	return flightInfo, err
}

// GetSchema implements arrowflight.FlightServer.
func (s *service) GetSchema(ctx context.Context, descriptor *arrowflight.FlightDescriptor) (*arrowflight.SchemaResult, error) {
	p, err := s.planDescriptor(ctx, call.Of(ctx), descriptor)
	if err != nil {
		return nil, err
	}
	schema, err := p.Schema(p.Query.Selection(), p.Query.Wire)
	if err != nil {
		return nil, s.guard.Disclosed(ctx, p.access, err)
	}
	return &arrowflight.SchemaResult{Schema: schemaBytes(schema)}, nil
}

// ListFlights implements arrowflight.FlightServer. A dataset that cannot be resolved is
// listed with its error, so that a broken table does not hide the others.
func (s *service) ListFlights(criteria *arrowflight.Criteria, stream arrowflight.FlightService_ListFlightsServer) error {
	if len(criteria.GetExpression()) > 0 {
		return fault.InvalidField("criteria", "an expression is not supported by this version").WithRemedy("list without criteria")
	}
	c := call.Of(stream.Context())
	for _, d := range s.options.Loader.Datasets() {
		if !s.guard.MayRead(c, d.Name) {
			continue
		}
		descriptor := &arrowflight.FlightDescriptor{Type: descriptorPath, Path: []string{d.Name}}
		listed, err := s.listed(stream.Context(), c, descriptor)
		if ctx := stream.Context(); ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			listed = &arrowflight.FlightInfo{
				FlightDescriptor: descriptor, TotalRecords: unknown, TotalBytes: unknown,
				Schema: schemaBytes(arrow.NewSchema(nil, nil)), AppMetadata: jsontext.Of(broken{V: 1, Error: failure.DetailsOf(fault.As(err))}),
			}
		}
		if err := stream.Send(listed); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) listed(ctx context.Context, c *call.Call, descriptor *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	p, err := s.planDescriptor(ctx, c, descriptor)
	if err != nil {
		return nil, err
	}
	flightInfo, err := s.flightInfo(p, descriptor)
	return flightInfo, s.guard.Disclosed(ctx, p.access, err)
}

func schemaBytes(schema *arrow.Schema) []byte {
	return arrowflight.SerializeSchema(schema, memory.NewGoAllocator())
}

// flightInfo describes a plan, without endpoints.
func (s *Server) flightInfo(p planned, descriptor *arrowflight.FlightDescriptor) (*arrowflight.FlightInfo, error) {
	schema, err := p.Schema(p.Query.Selection(), p.Query.Wire)
	if err != nil {
		return nil, err
	}
	about := redacted(p.summary(), p.access)
	about.LocalSocket = s.options.LocalSocket
	return &arrowflight.FlightInfo{
		Schema: schemaBytes(schema), FlightDescriptor: descriptor,
		TotalRecords: p.rowsLeft(), TotalBytes: unknown, AppMetadata: jsontext.Of(about),
	}, nil
}

// redacted removes from a summary everything that describes rows that the caller may not read, and
// the filters that the dataset and the caller's rights add.
func redacted(s PlanSummary, a access.Grant) PlanSummary {
	if !a.Limited {
		return s
	}
	s.Splits = unknown
	if s.RowsUnknown != "" {
		s.RowsUnknown = "rows are dropped when they are read"
	}
	return s
}

func (p planned) summary() PlanSummary {
	out := PlanSummary{
		V: 1, Plan: p.ID, Pin: p.Rows.Pin, Lanes: len(p.Lanes), Shards: p.Query.Shard.Of, BatchRows: p.BatchRows,
		Rows: unknown, Steps: unknown, Splits: len(p.Splits),
		Sample: json.RawMessage(p.Rows.Sample.Canonical()), Since: p.Rows.Since, Computed: p.Computed(),
	}
	if p.Rows.Requests {
		out.BatchRows, out.BatchRequests = 0, p.BatchRows
	}
	if p.counts != nil {
		out.Steps = p.counts.Steps(p.Query.Tail, p.perStep())
	}
	switch rows, exact := p.ExactRows(); {
	case p.counts != nil && !p.Rows.Requests:
		out.Rows = p.counts.Rows
	case exact:
		out.Rows = rows
	default:
		out.RowsUnknown = p.Inexact
	}
	if limit := p.Query.Limit; limit > 0 && out.Rows > limit {
		out.Rows = limit
		out.Steps = p.stepsTo(limit)
	}
	return out
}

// stepsTo returns the number of steps from the plan's start that contain the given number of
// rows.
func (p planned) stepsTo(rows int64) int64 {
	if p.counts == nil {
		return unknown
	}
	return stepsFor(p.counts.Lanes, p.perStep(), rows)
}

// perStep returns the number of rows, or requests, of each lane in a step.
func (p planned) perStep() int64 {
	return int64(p.BatchRows / (len(p.Lanes) / p.Query.Shard.Of))
}

// shards returns the shards that the query asks for.
func (p planned) shards() []dataset.Shard {
	shard := p.Query.Shard
	if shard.Index != dataset.AllShards {
		return []dataset.Shard{shard}
	}
	var all []dataset.Shard
	for i := range shard.Of {
		all = append(all, dataset.Shard{Index: i, Of: shard.Of})
	}
	return all
}

// rowsLeft returns the number of rows of the query's shards from its cursor on, or unknown.
func (p planned) rowsLeft() int64 {
	return p.limited(p.rowsFrom())
}

// limited returns rows, but at most the query's limit.
func (p planned) limited(rows int64) int64 {
	if limit := p.Query.Limit; limit > 0 && rows > limit {
		return limit
	}
	return rows
}

// rowsFrom is rowsLeft without the query's limit.
func (p planned) rowsFrom() int64 {
	whole := len(p.Query.Cursor) == 0 && p.Query.Shard.Index == dataset.AllShards && p.Query.Every.Of == 1
	if rows, exact := p.ExactRows(); (p.counts == nil || p.Rows.Requests) && exact && whole && !p.Query.Tail.Drops() {
		return rows // although the numbers of rows of the lanes are not known
	}
	rows := int64(0)
	for _, shard := range p.shards() {
		left := p.rowsOf(shard)
		if left == unknown {
			return unknown
		}
		rows += left
	}
	return rows
}

// endpointMetadata is the app_metadata of an endpoint.
type endpointMetadata struct {
	V    int   `json:"v"`
	Rows int64 `json:"rows"` // of the ticket's stream; -1 is unknown
	// Batches is the number of batches of the stream; -1 is unknown.
	Batches int64 `json:"batches"`
}

// narrow merges the cursors of all shards into one cursor with the positions of the lanes of one
// shard, so that the size of a ticket does not depend on the number of shards. The plan has checked
// that all lanes that have not ended have returned the same number of rows.
func (p planned) narrow(shard dataset.Shard) dataset.Cursors {
	cursors := p.Query.Cursor
	if len(cursors) == 0 {
		return nil
	}
	one := slices.MaxFunc(cursors, func(a, b dataset.Cursor) int { return cmp.Compare(a.Given, b.Given) })
	one.Shard, one.At, one.Counted = shard, nil, p.carried(shard)
	for _, c := range cursors {
		one.Uneven = one.Uneven || c.Uneven
		for _, at := range c.At {
			if at.Lane%shard.Of == shard.Index {
				one.At = append(one.At, at)
			}
		}
	}
	slices.SortFunc(one.At, func(a, b dataset.Position) int { return cmp.Compare(a.Lane, b.Lane) })
	return dataset.Cursors{one}
}
