package flight

import (
	"cmp"
	"context"
	"errors"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/admission"
	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/plan"
)

// A query takes about queryMemory times the bytes of its text. The first freeQuery bytes of each
// stream's query are not charged to the budget; few queries are larger.
const queryMemory, freeQuery = 4, 64 << 10

// DoGet implements arrowflight.FlightServer.
func (s *service) DoGet(sealed *arrowflight.Ticket, stream arrowflight.FlightService_DoGetServer) (failed error) {
	if err := s.options.Audit.Err(); err != nil {
		return access.NotAudited(err)
	}
	c := call.Of(stream.Context())
	if name, follows := followOf(sealed.GetTicket()); follows {
		return s.follow(c, name, stream)
	}
	content, rights, err := s.openTicket(c, sealed.GetTicket())
	if err != nil {
		return err
	}
	held, err := s.options.Budget.Reserve("the query of a stream", queryBytes(content))
	if err != nil {
		return err
	}
	defer held.Release()
	ctx, leave := s.enter(stream.Context())
	defer leave()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	session := s.claimSession(stream) // before it waits for a slot, since unclaimed sessions end
	ctx, running := s.running.begin(ctx, c, content, rights, wayOf(ctx, session))
	defer s.running.end(running)
	moves, unfollow := false, s.followers.enter(c, stream, running)
	defer func() { unfollow(moves) }()
	defer func() { running.steps.End(failed) }()
	mix, err := admission.MixOf(ctx)
	if err != nil {
		return err
	}
	planning := running.waits.Begin(waits.Plan)
	slot := s.admission.Of(admission.Stream{Client: c.Client(), Plan: content.Plan, Shard: rights.Query.Shard, Mix: mix})
	defer slot.Release()
	p, err := s.replanAt(ctx, slot, rights, content)
	c.Slot.Leave()
	if err != nil {
		return failure.Cause(ctx, err)
	}
	running.planned(p)
	planning()
	sender := s.begin(ctx, c, p, running)
	sender.slot, sender.session, sender.mayMove = slot, session, mayMove(ctx)
	err = sender.run(ctx, stream, p, failure.EndsByServer(end), leave)
	moves = sender.hasMoved
	return s.guard.Disclosed(ctx, rights, err)
}

// queryBytes returns the bytes that a stream reserves for its query. The stream holds them from
// before it waits for a slot until it ends.
func queryBytes(of ticket.Content) int64 {
	bytes := queryMemory * int64(len(of.Query))
	if bytes <= freeQuery {
		return 0
	}
	return bytes
}

// openTicket opens a ticket and returns its content and the caller's rights to its query. It
// returns an error if this server can no longer serve the ticket to the caller.
func (s *Server) openTicket(of *call.Call, sealed []byte) (ticket.Content, access.Grant, error) {
	c, err := s.tickets.open(of, sealed)
	if err != nil {
		return ticket.Content{}, access.Grant{}, err
	}
	if !plan.Serves(c.Algorithm) {
		return ticket.Content{}, access.Grant{}, ticket.Expired("the ticket was made by a version that plans by algorithm %d, this one plans by at most %d", c.Algorithm, plan.Algorithm)
	}
	query, err := c.Asked()
	if err != nil {
		return ticket.Content{}, access.Grant{}, err
	}
	of.Note.Query(query)
	may, err := s.guard.PermitTicket(of, query, c)
	return c, may, err
}

// replan plans the query of a ticket again. The plan must equal that of the ticket:
// otherwise rows could be repeated or lost between the streams of a run.
func (s *Server) replan(ctx context.Context, may access.Grant, c ticket.Content) (planned, error) {
	p, err := s.planQuery(ctx, may, may.Query, func(string) {})
	if err != nil { // the dataset may have changed while the call waited
		_, refusal := s.guard.PermitTicket(may.Call, may.Query, c)
		return planned{}, cmp.Or(refusal, err)
	}
	if p.ID != c.Plan || p.FilesID != c.Files {
		return planned{}, fault.New(fault.Internal, "the plan of the ticket came out as %s with files %s, it was %s with files %s", p.ID, p.FilesID, c.Plan, c.Files).WithRemedy(ticket.PlanAgain)
	}
	if p.part, err = c.PartOf(may.Query); err != nil {
		return planned{}, err
	}
	return p, p.counted(c)
}

// replanAt is replan for a stream that has a slot.
func (s *Server) replanAt(ctx context.Context, at *admission.Slot, may access.Grant, c ticket.Content) (p planned, err error) {
	err = s.beginAt(ctx, at, func() error {
		p, err = s.replan(ctx, may, c)
		return err
	})
	return p, err
}

// openAt opens the stream of a planned query with a slot. The caller releases it.
func (s *Server) openAt(ctx context.Context, at *admission.Slot, p planned) (source loader.Stream, err error) {
	err = s.beginAt(ctx, at, func() error {
		source, err = s.options.Loader.Open(ctx, p.Planned, loader.StreamOptions{Counts: p.counts, Part: p.part, Peer: at.Claim.Client})
		return err
	})
	return source, err
}

// beginAt does a part of a stream's beginning with a slot. A client that understands moved goes to another server if the stream waits
// while this one shuts down.
func (s *Server) beginAt(ctx context.Context, at *admission.Slot, do func() error) error {
	defer waits.Begin(ctx, waits.Plan)()
	waiting, leave := s.waiting(ctx, mayMove(ctx))
	defer leave()
	err := withinUntil(ctx, waiting, at, do, nil)
	if errors.Is(err, errStops) {
		return shuttingDown()
	}
	return err
}
