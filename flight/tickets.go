package flight

import (
	"cmp"
	"context"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/ticket"
	"github.com/penstock/penstock/internal/backoff"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
)

const (
	// manyTickets is the number of tickets that take about as long to make as one plan.
	manyTickets = 64
	// maxTickets bounds the tickets of one response, in bytes.
	maxTickets = 64 << 20
	// maxContents bounds the contents of the tickets of one response, in bytes: tickets are
	// compressed, and a repetitive content takes far more bytes than its ticket.
	maxContents = 128 << 20
	// freeTickets is how many bytes of tickets a call holds without a reservation.
	freeTickets = 1 << 20
)

// tickets makes, opens and renews tickets, and makes the endpoints that have them. It is safe for concurrent use.
type tickets struct {
	keys      func() *ticket.Keys // the current ones
	clock     func() time.Time
	ticks     func() time.Time // for rests
	lifetime  time.Duration
	renewal   time.Duration // how long after its first expiry a ticket can be extended
	advertise []string      // locations in endpoints
	budget    *budget.Budget
	streams   func() int // that are open
}

// sealer returns a function that seals the tickets of one response, for the subject of the call.
// Their memory is reserved until release is called, and sealing stops if the call ends. While
// streams are open, sealing many tickets takes at most half of a processor.
func (t *tickets) sealer(ctx context.Context, of *call.Call) (seal func(c ticket.Content, expires time.Time) ([]byte, error), release func()) {
	each, held, sum := t.keys().Sealer(maxTickets, maxContents), (*budget.Reservation)(nil), 0
	made, began := 0, t.ticks()
	return func(c ticket.Content, expires time.Time) ([]byte, error) {
			if made++; made%manyTickets == 0 && t.streams() > 0 {
				_ = backoff.Sleep(ctx, t.ticks().Sub(began))
				began = t.ticks()
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			c.Subject = of.Caller.Subject
			sealed, err := each(c, expires)
			if sum += len(sealed); err != nil || sum <= freeTickets {
				return sealed, err
			}
			if held == nil {
				if held, err = t.budget.Reserve("the tickets of a plan", int64(sum)); err != nil {
					return nil, err
				}
				return sealed, nil
			}
			return sealed, held.Grow(int64(len(sealed)))
		}, func() {
			if held != nil {
				held.Release()
			}
		}
}

// open verifies a ticket, and that it was made for the subject of the call.
func (t *tickets) open(of *call.Call, sealed []byte) (ticket.Content, error) {
	c, err := t.keys().Open(sealed, t.clock())
	if err != nil {
		return ticket.Content{}, err
	}
	switch subject := of.Caller.Subject; {
	case c.Subject == subject:
		return c, nil
	case c.Subject == "":
		return ticket.Content{}, ticket.Expired("the ticket was made by a server without credentials, and this one has some")
	case subject == "":
		return ticket.Content{}, ticket.Expired("the ticket was made for a subject, and this server has no credentials that name one")
	default:
		of.Note.Ticket(c)
		return ticket.Content{}, fault.New(fault.Forbidden, "the ticket was made for another subject than that of this call's credentials").
			WithRemedy("call GetFlightInfo with the same credentials as DoGet; a cursor may be of any subject")
	}
}

// renewed signs the content of a valid ticket, which expires at was, once more, with a later
// expiry. The expiry is at most Options.Renewal after that of the original ticket: otherwise
// tickets would outlive the keys that signed them, and the rights of their holders.
func (t *tickets) renewed(c ticket.Content, was int64) ([]byte, time.Time, error) {
	expires := t.clock().Add(t.lifetime)
	first := cmp.Or(c.First, was)
	if last := time.Unix(first, 0).Add(t.renewal).UTC(); expires.After(last) {
		if last.Unix() <= was {
			return nil, time.Time{}, ticket.Expired("the ticket cannot be renewed any more: it was first good until %s, and is for %s longer at the most",
				time.Unix(first, 0).UTC().Format(time.RFC3339), t.renewal)
		}
		expires = last
	}
	if expires.Unix() != first {
		c.First = first
	}
	sealed, err := t.keys().Seal(c, expires)
	return sealed, expires, err
}

// expiry returns when a ticket that is made now expires.
func (t *tickets) expiry() time.Time {
	return t.clock().Add(t.lifetime).Truncate(time.Second)
}

// endpoints makes an endpoint with a ticket for every shard of the query.
func (t *tickets) endpoints(ctx context.Context, p planned) ([]*arrowflight.FlightEndpoint, error) {
	expires := t.expiry()
	seal, release := t.sealer(ctx, p.access.Call)
	defer release()
	var endpoints []*arrowflight.FlightEndpoint
	for _, shard := range p.shards() {
		q := p.Query
		q.Shard, q.Cursor = shard, p.narrow(shard)
		c := ticket.New(q, p.Plan)
		if len(q.Cursor) == 0 {
			c.Counted = p.carried(shard)
		}
		sealed, err := seal(c, expires)
		if err != nil {
			return nil, err
		}
		e := t.endpoint(sealed, expires)
		e.AppMetadata = jsontext.Of(endpointMetadata{V: 1, Rows: p.limited(p.rowsOf(shard)), Batches: p.batchesOf(shard)})
		endpoints = append(endpoints, e)
	}
	return endpoints, nil
}

func (t *tickets) endpoint(sealed []byte, expires time.Time) *arrowflight.FlightEndpoint {
	e := &arrowflight.FlightEndpoint{Ticket: &arrowflight.Ticket{Ticket: sealed}, ExpirationTime: timestamppb.New(expires)}
	for _, uri := range t.advertise {
		e.Location = append(e.Location, &arrowflight.Location{Uri: uri})
	}
	return e
}
