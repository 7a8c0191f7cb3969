package inbound

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
)

// arrivals limits the open calls whose request has not arrived. Of these, gRPC holds the headers and what has come of the
// message. If there are too many, the oldest of the client that has the most ends, so that no number of slow clients keeps others
// out; but a call of this client itself is refused while its oldest is young, which takes far less of a flood. If they hold too
// many bytes, those of the connection that has sent most end. It is safe for concurrent use.
type arrivals struct {
	clock   func() time.Time
	bytes   int64 // limit of received
	timeout time.Duration
	refusal error // of a call; a flood is refused without an allocation for each

	mu       sync.Mutex
	calls    *limits.Room[*Arrival]
	received int64 // by connections with calls that have not arrived
	senders  map[*countedConn][]*Arrival
}

func newArrivals(calls int, clock func() time.Time) *arrivals {
	return &arrivals{
		clock: clock, bytes: maxArrivingBytes, timeout: arrivalTimeout,
		refusal: status.Error(codes.Unavailable, tooMany+"; try again in a second"),
		calls:   limits.NewRoom[*Arrival](calls, 100), senders: map[*countedConn][]*Arrival{},
	}
}

// Arrival is an open call whose request has not arrived.
type Arrival struct {
	client string
	at     time.Time
	conn   *countedConn // nil: not known
	end    chan error   // receives why the server ends it
	left   bool         // it has arrived or ended; guarded by arrivals.mu
}

// admit adds a call whose headers have come and whose request has not, or refuses it. It does not block.
func (a *arrivals) admit(ctx context.Context, client string) (*Arrival, error) {
	from := ConnectionOf(ctx)
	arrival := &Arrival{client: client, at: a.clock(), conn: from.counted(), end: make(chan error, 1)}
	if !a.enter(arrival) {
		if _, timed := ctx.Deadline(); timed {
			from.keep()
		}
		return nil, a.refusal
	}
	context.AfterFunc(ctx, func() { a.leave(arrival) })
	return arrival, nil
}

// tooMany is why calls are refused, or end early.
const tooMany = "too many calls wait for their requests"

// enter adds a call, and ends another one if there are too many. It returns false if the call is refused.
func (a *arrivals) enter(call *Arrival) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	gone, entered := a.calls.Enter(call.client, call, nil)
	if !entered { // no other client has more
		oldest := a.calls.Of(call.client)[0]
		if call.at.Sub(oldest.at) < arrivalGrace {
			return false
		}
		a.evict(oldest, tooMany)
		a.calls.Enter(call.client, call, nil)
	}
	if gone != nil {
		a.evict(gone, tooMany)
	}
	if c := call.conn; c != nil {
		if len(a.senders[c]) == 0 {
			a.received += c.received.begin()
		}
		a.senders[c] = append(a.senders[c], call)
		a.evictBytes()
	}
	return true
}

// evict ends a call. mu is held.
func (a *arrivals) evict(call *Arrival, why string) {
	a.remove(call)
	call.end <- fault.New(fault.Unavailable, "%s", why).WithRemedy("try again in a second")
}

// add counts bytes that a connection has received.
func (a *arrivals) add(c *countedConn, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.senders[c]) > 0 {
		a.received += c.received.add(int64(n))
		a.evictBytes()
	}
}

// evictBytes ends the calls of the connections that have sent most, if all have sent too much, until a quarter is free. mu is
// held.
func (a *arrivals) evictBytes() {
	if a.received <= a.bytes {
		return
	}
	by := slices.SortedFunc(maps.Keys(a.senders), func(a, b *countedConn) int { return cmp.Compare(b.received.bytes, a.received.bytes) })
	for _, c := range by {
		if a.received <= a.bytes/4*3 {
			return
		}
		for _, call := range slices.Clone(a.senders[c]) {
			a.evict(call, "the requests that have not arrived take too much memory")
		}
	}
}

// leave removes a call that has arrived or ended. It may be called more than once.
func (a *arrivals) leave(call *Arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !call.left {
		a.remove(call)
	}
}

// remove removes a call. mu is held.
func (a *arrivals) remove(call *Arrival) {
	call.left = true
	a.calls.Leave(call.client, call)
	if c := call.conn; c != nil {
		a.senders[c] = slices.DeleteFunc(a.senders[c], func(o *Arrival) bool { return o == call })
		if len(a.senders[c]) == 0 {
			delete(a.senders, c)
			a.received -= c.received.end()
		}
	}
}
