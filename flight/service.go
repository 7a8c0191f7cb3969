package flight

import (
	"context"
	"errors"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/policy"
)

// service implements the calls of Flight. A call that this version does not support fails with an
// error that names it.
type service struct {
	arrowflight.BaseFlightServer
	*Server
}

// planned is a planned query, with the fields that a ticket adds to it.
type planned struct {
	loader.Planned
	part   plan.Part       // of the plan that a ticket is for; zero: all of it
	counts *dataset.Counts // rows of the lanes; nil if unknown
	given  []int64         // by lane, see givenBefore
	access access.Grant    // of the caller
}

// plan plans a query of a caller that must have the permission what on the dataset. The call then
// has a slot, until it leaves the slot or ends. If the dataset is reloaded meanwhile, plan checks
// the caller's rights and plans the query again.
func (s *Server) plan(ctx context.Context, c *call.Call, query dataset.Query, what policy.Permission) (planned, error) {
	c.Note.Query(query)
	for try := 1; ; try++ {
		may, err := s.guard.PermitTo(c, query, what)
		if err != nil {
			return planned{}, err
		}
		p, err := s.planShown(ctx, may, query)
		if try == maxPlanned || !errors.Is(err, access.ErrChangedMeanwhile) {
			return p, err
		}
	}
}

// maxPlanned is the greatest number of times that a query is planned because its dataset keeps
// changing.
const maxPlanned = 4

// planQuery plans a query within the rights of its caller. awaits receives what the call waits for.
func (s *Server) planQuery(ctx context.Context, may access.Grant, query dataset.Query, awaits func(string)) (planned, error) {
	if err := may.Call.Slot.EnterCall(ctx); err != nil {
		return planned{}, err
	}
	if may.Limited { // faults of the query alone keep their details
		q := query.Defaults()
		if err := q.Check(); err != nil {
			return planned{}, err
		}
		if err := may.CheckEndpoints(q); err != nil {
			return planned{}, err
		}
	}
	p, err := s.options.Loader.PlanFor(ctx, planRequest(ctx, may, query, awaits))
	if err == nil && p.Digest != may.Digest {
		return planned{}, access.ChangedMeanwhile(query)
	}
	if err != nil {
		if changed := s.guard.CheckUnchanged(may); changed != nil {
			return planned{}, changed
		}
		return planned{}, s.guard.Disclosed(ctx, may, err)
	}
	known, err := p.KnownCounts()
	out := planned{Planned: p, counts: known, access: may}
	if err == nil {
		out.given = out.givenBefore()
	}
	return out, s.guard.Disclosed(ctx, may, err)
}

// planDescriptor plans the query of a descriptor.
func (s *Server) planDescriptor(ctx context.Context, c *call.Call, descriptor *arrowflight.FlightDescriptor) (planned, error) {
	if err := c.Slot.EnterCall(ctx); err != nil {
		return planned{}, err
	}
	query, err := queryOf(descriptor)
	if err != nil {
		return planned{}, err
	}
	return s.plan(ctx, c, query, policy.Reading)
}

// queryOf returns the query of a descriptor: the path [dataset], or a query as JSON.
func queryOf(descriptor *arrowflight.FlightDescriptor) (dataset.Query, error) {
	switch descriptor.GetType() {
	case descriptorPath:
		if len(descriptor.GetPath()) != 1 {
			return dataset.Query{}, fault.InvalidField("descriptor", "the path has %d parts, want one: the name of a dataset", len(descriptor.GetPath())).
				WithRemedy("ListFlights lists the datasets of this server")
		}
		return dataset.Query{Rows: dataset.Rows{Dataset: descriptor.GetPath()[0]}}, nil
	case descriptorCommand:
		return decode.Query(descriptor.GetCmd())
	default:
		return dataset.Query{}, fault.InvalidField("descriptor", "it is neither a path nor a command").
			WithRemedy("give the path [dataset], or a query as JSON in the command")
	}
}

// DoPut implements arrowflight.FlightServer. The rows become one change of a table, if the client has said that it has sent
// them all.
func (s *service) DoPut(stream arrowflight.FlightService_DoPutServer) error {
	return s.changes.Put(call.Of(stream.Context()), stream)
}

// Handshake implements arrowflight.FlightServer.
func (*service) Handshake(arrowflight.FlightService_HandshakeServer) error {
	return refused("Handshake", "connect without credentials")
}

// DoExchange implements arrowflight.FlightServer.
func (*service) DoExchange(arrowflight.FlightService_DoExchangeServer) error {
	return refused("DoExchange", "use DoGet")
}

// PollFlightInfo implements arrowflight.FlightServer.
func (*service) PollFlightInfo(context.Context, *arrowflight.FlightDescriptor) (*arrowflight.PollInfo, error) {
	return nil, refused("PollFlightInfo", "use GetFlightInfo")
}

func refused(call, remedy string) error {
	return fault.New(fault.Invalid, "%s is not supported by this version", call).WithRemedy("%s", remedy)
}
