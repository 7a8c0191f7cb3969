package flight

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/protobuf/proto"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/coverage"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/scale"
	"github.com/penstock/penstock/loader/plan/shape"
	"github.com/penstock/penstock/loader/policy"
)

func (s *service) actions() []call.Action {
	all := []call.Action{
		{Name: "explain", Description: "Show what a query reads, joins and returns, in one screen. Body: a query as JSON. Result: text.", Needs: policy.Explain, Run: call.Answering(s.explain)},
		{Name: "explain_splits", Description: "Show what a query reads, in which order, and why, with its splits and lanes. Body: a query as JSON. Result: text.", Needs: policy.Explain, Run: call.Answering(s.explainSplits)},
		{Name: "explain_shape", Description: "Describe how the rows of a query are spread over buckets, lanes and files, and what the last streams of its dataset matched. Body: a query as JSON. Result: JSON.", Needs: policy.Explain, Run: call.Answering(s.explainShape)},
		{Name: "explain_scale", Description: "Compute servers, memory, network, storage requests and cost for a number of trainers. Body: {query, scale} as JSON. Result: JSON.", Needs: policy.Explain, Run: call.Answering(s.explainScale)},
		{Name: "explain_coverage", Description: "Count the training rows of a query, and the staging rows joined with them, by partition and bucket. Body: a query as JSON. Result: JSON.", Needs: policy.Explain, Run: call.Answering(s.explainCoverage)},
		{Name: "manifest", Description: "Describe everything that determines a query's stream, to keep with a model. Body: a query as JSON. Result: JSON.", Needs: policy.Reading, Run: call.Answering(s.manifest)},
		{Name: "stall", Description: "Report how long a trainer waited for batches since its last report, for the server's metrics. Body: {dataset, plan, rows, batches, seconds, waited} as JSON. Result: {}.", Needs: policy.Reading, Run: call.Answering(s.stall)},
		{Name: "status", Description: "List the streams that run and what each waits for: the caller's own, or all with the right status. Body: {} or nothing. Result: JSON.", Needs: policy.Reading, Run: call.Answering(s.status)},
		{Name: arrowflight.RenewFlightEndpointActionType, Description: "Renew the ticket of an endpoint. Body and result are defined by Flight.", Needs: policy.Reading, Run: call.Answering(s.renew)},
	}
	if s.options.Verifier != nil {
		all = append(all, call.Action{
			Name: "verify", Description: "Check that the tables of a query's dataset are laid out as the join expects, by reading all keys. Body: a query as JSON. Result: JSON.", Needs: policy.Verify, Run: call.Answering(s.verify),
		}, call.Action{
			Name: "verify_progress", Description: "As verify, with messages on how far it is. Body: a query as JSON. Results: JSON, {progress} or {result}.", Needs: policy.Verify, Run: progress.Answering(s.options.Clock, s.verifyProgress),
		})
	}
	if s.options.Differ != nil {
		all = append(all, call.Action{
			Name: "diff", Description: "Compare two snapshots of a table: files, partitions, columns, and the keys that were added, gone or changed. Body: {table, from, to, key, only_files, progress} as JSON. Results: JSON, {progress} or {result}.", Needs: policy.Verify, Run: progress.Answering(s.options.Clock, s.diff),
		})
	}
	if s.options.Proposer != nil {
		all = append(all, call.Action{
			Name: "propose", Description: "Lay out the staging table of a new feature, as Spark SQL and as the dataset that reads it. Body: {dataset, table, columns, key, sort, buckets, unaligned, replaces, from, to} as JSON. Result: JSON.", Needs: policy.Explain, Run: call.Answering(s.propose),
		})
	}
	all = append(all, historian{s.options.History, s.guard, s.options.Budget}.actions()...)
	all = append(all, s.described.Actions()...)
	all = append(all, s.changes.Actions()...)
	if s.options.Cache != nil {
		all = append(all,
			call.Action{Name: "cache_ls", Description: "List what is kept for later streams, by table and file. Result: JSON.", Needs: policy.Cache, Run: call.Answering(s.listCache)},
			call.Action{Name: "cache_drop", Description: "Drop what is kept for later streams. Body: {table} as JSON, a name or a uuid, or nothing to drop all. Result: JSON.", Needs: policy.Cache, Run: call.Answering(s.dropCache)},
		)
	}
	return all
}

// ListActions implements arrowflight.FlightServer.
func (s *service) ListActions(_ *arrowflight.Empty, stream arrowflight.FlightService_ListActionsServer) error {
	c := call.Of(stream.Context())
	for _, a := range s.actions() {
		if !s.guard.MayCall(c, a.Needs) {
			continue
		}
		if err := stream.Send(&arrowflight.ActionType{Type: a.Name, Description: a.Description}); err != nil {
			return err
		}
	}
	return nil
}

// DoAction implements arrowflight.FlightServer.
func (s *service) DoAction(asked *arrowflight.Action, stream arrowflight.FlightService_DoActionServer) error {
	c := call.Of(stream.Context())
	if err := c.Slot.EnterCall(stream.Context()); err != nil {
		return err
	}
	var names []string
	for _, a := range s.actions() {
		may := s.guard.MayCall(c, a.Needs)
		if a.Name != asked.GetType() {
			if may {
				names = append(names, a.Name)
			}
			continue
		}
		c.Note.Action(a.Name)
		if !may {
			if query, err := decode.Query(asked.GetBody()); err == nil && a.Needs != policy.Cache {
				c.Note.Query(query)
			}
			return fault.Op(access.Forbidden(a.Needs), "%s", a.Name)
		}
		return fault.Op(a.Run(c, asked.GetBody(), stream), "%s", a.Name)
	}
	e := fault.InvalidField("action", "%q is not supported by this version", fault.Shorten(asked.GetType(), call.MaxName))
	e.Faults[0].Nearest = fault.Nearest(asked.GetType(), names)
	return e.WithRemedy("the actions are %s", strings.Join(names, ", "))
}

// freeDescription is how many bytes of the description of a plan a call holds without a reservation.
const freeDescription = 1 << 20

// describedQuery plans a query for an action that describes the plan. The memory of the description is reserved until release is called, with
// the bytes that the action holds besides it.
func (s *service) describedQuery(ctx context.Context, c *call.Call, query dataset.Query, besides func(*plan.Plan) int64) (p planned, release func(), err error) {
	if p, err = s.plan(ctx, c, query, policy.Explain); err != nil {
		return planned{}, nil, err
	}
	bytes := p.DescriptionBytes()
	if besides != nil {
		bytes += besides(p.Plan)
	}
	if bytes <= freeDescription {
		bytes = 0
	}
	held, err := s.options.Budget.Reserve("the description of a plan", bytes)
	if err != nil {
		return planned{}, nil, err
	}
	return p, held.Release, nil
}

// describedPlan is describedQuery for the query in the body of an action.
func (s *service) describedPlan(ctx context.Context, c *call.Call, body []byte) (p planned, release func(), err error) {
	query, err := decode.Query(body)
	if err != nil {
		return planned{}, nil, err
	}
	return s.describedQuery(ctx, c, query, nil)
}

// The greatest numbers of lines of the parts of an explanation.
const (
	screen     = 40
	screenPart = 4 // what streams share, and what is cached
)

// explain returns one screen for any plan.
func (s *service) explain(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	p, release, err := s.describedPlan(ctx, c, body)
	if err != nil {
		return nil, err
	}
	defer release()
	parts := s.explainNow(p)
	for i := range parts {
		parts[i] = firstLines(parts[i], screenPart)
	}
	now := strings.Join(parts, "")
	const more = "\nevery split and lane, and all rules in full: --splits, in Python splits=True\n"
	lines := screen - strings.Count(now, "\n") - strings.Count(more, "\n")
	sizes, err := s.columnSizes(ctx, p)
	if err != nil {
		return nil, err
	}
	return []byte(explain.Summary(p.Plan, p.Query, sizes, lines) + now + more), nil
}

// explainSplits returns everything about a plan.
func (s *service) explainSplits(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	p, release, err := s.describedPlan(ctx, c, body)
	if err != nil {
		return nil, err
	}
	defer release()
	sizes, err := s.columnSizes(ctx, p)
	if err != nil {
		return nil, err
	}
	return []byte(explain.Text(p.Plan, p.Query, sizes) + strings.Join(s.explainNow(p), "")), nil
}

// PlanShape is the result of the action explain_shape.
type PlanShape struct {
	shape.Shape
	// Runs are the last streams of the query's dataset on this server that ended with a report, of all clients, the oldest first. They are empty for callers
	// who may only see their own streams.
	Runs []Run `json:"runs"`
}

// explainShape describes a plan in numbers.
func (s *service) explainShape(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	p, release, err := s.describedPlan(ctx, c, body)
	if err != nil {
		return nil, err
	}
	defer release()
	out := PlanShape{Shape: shape.Of(p.Plan), Runs: []Run{}}
	if s.guard.Policy().May(c.Caller, policy.Status) {
		out.Runs = s.runs.of(p.Query.Dataset)
	}
	return jsontext.Of(out), nil
}

// PlanScale is the result of the action explain_scale.
type PlanScale struct {
	scale.Sizing
	Text string `json:"text"` // the sizing for people
}

// explainScale computes what a number of trainers need.
func (s *service) explainScale(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	asked, err := decode.Scale(body)
	if err != nil {
		return nil, err
	}
	load, err := scale.Parse(asked.Scale)
	if err != nil {
		return nil, err
	}
	query, err := load.Streams(asked.Query)
	if err != nil {
		return nil, err
	}
	p, release, err := s.describedQuery(ctx, c, query, nil)
	if err != nil {
		return nil, err
	}
	defer release()
	sizes, err := s.columnSizes(ctx, p)
	if err != nil {
		return nil, err
	}
	facts, err := scale.Of(p.Plan, p.Query, p.BatchRows, sizes)
	if err != nil {
		return nil, err
	}
	sized, err := load.Of(facts)
	if err != nil {
		return nil, err
	}
	return jsontext.Of(PlanScale{Sizing: sized, Text: sized.String()}), nil
}

// explainCoverage counts the rows of a plan by partition and bucket.
func (s *service) explainCoverage(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	query, err := decode.Query(body)
	if err != nil {
		return nil, err
	}
	p, release, err := s.describedQuery(ctx, c, query, func(p *plan.Plan) int64 { return coverage.Size(p, 1+len(p.Staging)) })
	if err != nil {
		return nil, err
	}
	defer release()
	return jsontext.Of(coverage.Of(p.Plan)), nil
}

// columnSizes returns the stored sizes of the columns that a plan reads; nil if they are not known.
func (s *service) columnSizes(ctx context.Context, p planned) (*plan.ColumnSizes, error) {
	if s.options.ColumnSizes == nil {
		return nil, nil //nolint:nilnil // explain texts give the sizes of whole files
	}
	return s.options.ColumnSizes(ctx, p.Planned)
}

// explainNow returns three texts: what streams of a plan share now, what is cached of its tables,
// and what its last stream matched. A text is "" if there is nothing to say.
func (s *service) explainNow(p planned) []string {
	var shared, cached string
	if s.options.Sharing != nil {
		shared = s.options.Sharing(p.TablesID)
	}
	if s.options.Cache != nil {
		cached = s.options.Cache.Warm(p.Plan)
	}
	return []string{shared, cached, s.runs.text(p.TablesID)}
}

// firstLines returns the first lines of a text, at most most of them. If lines are left out, the
// last line returned says how many.
func firstLines(text string, most int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) <= most {
		return text
	}
	return strings.Join(lines[:most-1], "") + fmt.Sprintf("  … %d more\n", len(lines)-most+1)
}

// verify returns the report of a verification.
func (s *service) verify(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	found, err := s.verified(ctx, c, body, nil)
	if err != nil {
		return nil, err
	}
	return jsontext.Of(found), nil
}

// verifyProgress is verify, and sends messages about its progress.
func (s *service) verifyProgress(ctx context.Context, c *call.Call, body []byte, to *progress.Sender) ([]any, error) {
	found, err := s.verified(ctx, c, body, func(at loader.VerifyProgress) {
		to.At(progress.Message{Table: at.Table, Step: "read", Counts: progress.Counts{RowsRead: at.Rows, OfRowsRead: at.OfRows}})
	})
	if err != nil {
		return nil, err
	}
	return []any{found}, nil
}

// verified verifies a planned query.
func (s *service) verified(ctx context.Context, c *call.Call, body []byte, told func(loader.VerifyProgress)) (*loader.Verification, error) {
	query, err := decode.Query(body)
	if err != nil {
		return nil, err
	}
	c.Note.Query(query)
	if err := s.options.Audit.Err(); err != nil {
		return nil, access.NotAudited(err)
	}
	may, err := s.guard.PermitTo(c, query, policy.Verify)
	if err != nil {
		return nil, err
	}
	var found *loader.Verification
	err = s.asStream(ctx, c, func(ctx context.Context) error {
		var err error
		if may, err = s.guard.PermitTo(c, query, policy.Verify); err != nil { // the dataset may have changed while the call waited
			return err
		}
		c.Note.Verify()
		found, err = s.options.Verifier.Verify(ctx, loader.PlanRequest{Query: query, Rights: may.Rights}, told)
		if changed := s.guard.CheckUnchanged(may); changed != nil {
			return changed
		}
		return failure.Cause(ctx, err)
	})
	if err != nil {
		return nil, err
	}
	c.Note.Verified(found)
	return found, nil
}

// asStream calls run for a call that reads as much as a stream does. So the call takes a stream's slot
// and is counted as a stream.
func (s *Server) asStream(ctx context.Context, c *call.Call, run func(context.Context) error) error {
	c.Slot.Leave()
	ctx, leave := s.enter(ctx)
	defer leave()
	at := s.admission.Of(admission.Stream{Client: c.Client()})
	defer at.Release()
	if err := at.Enter(ctx); err != nil {
		return failure.Cause(ctx, err)
	}
	return run(ctx)
}

// manifest records what a model was trained on, so that its rows can be read again. The query
// includes the pin.
type manifest struct {
	Version   string          `json:"version"` // of the server
	Query     json.RawMessage `json:"query"`
	Dataset   json.RawMessage `json:"dataset"`
	Pin       dataset.Pin     `json:"pin"`
	Plan      string          `json:"plan"`
	Columns   []column        `json:"columns"`
	Algorithm int             `json:"algorithm"`
}

type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

func (s *service) manifest(ctx context.Context, c *call.Call, body []byte) ([]byte, error) {
	query, err := decode.Query(body)
	if err != nil {
		return nil, err
	}
	p, err := s.plan(ctx, c, query, policy.Reading)
	if err != nil {
		return nil, err
	}
	schema, err := p.Schema(p.Query.Selection(), p.Query.Wire)
	if err != nil {
		return nil, s.guard.Disclosed(ctx, p.access, err)
	}
	p.Query.Pin, p.Query.Job = p.Rows.Pin, "" // a replay is another job
	m := manifest{
		Version: s.options.Version, Query: p.Query.Canonical(), Dataset: p.access.DatasetText(p.Relation.Dataset), Pin: p.Rows.Pin, Plan: p.ID,
		Columns: []column{}, Algorithm: p.Algorithm,
	}
	for _, f := range schema.Fields() {
		m.Columns = append(m.Columns, column{Name: f.Name, Type: f.Type.String(), Nullable: f.Nullable})
	}
	return jsontext.Of(m), nil
}

// maxEcho is the size in bytes of the largest app_metadata of an endpoint that a renewal repeats.
const maxEcho = 1 << 20

// renew returns a copy of an endpoint whose ticket is still valid, with a ticket that expires
// later.
func (s *service) renew(_ context.Context, c *call.Call, body []byte) ([]byte, error) {
	var request arrowflight.RenewFlightEndpointRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return nil, fault.InvalidField("body", "it is not a RenewFlightEndpointRequest: %v", err)
	}
	sealed := request.GetEndpoint().GetTicket().GetTicket()
	content, _, err := s.openTicket(c, sealed)
	if err != nil {
		return nil, err
	}
	sealed, expires, err := s.tickets.renewed(content, ticket.ExpiryOf(sealed))
	if err != nil {
		return nil, err
	}
	if n := len(request.GetEndpoint().GetAppMetadata()); n > maxEcho {
		return nil, fault.InvalidField("endpoint.app_metadata", "it takes %d bytes, more than the %d of any endpoint of this server", n, maxEcho).
			WithRemedy("send the endpoint as GetFlightInfo returned it")
	}
	renewed := s.tickets.endpoint(sealed, expires)
	renewed.AppMetadata = request.GetEndpoint().GetAppMetadata() // the splits are the same
	return proto.Marshal(renewed)
}
