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

// arrivals limits the open calls whose request has not arrived. For each of them, gRPC holds the
// headers and the bytes of the message that have arrived. If there are too many such calls, the
// oldest call of the client that has the most of them ends, so that slow clients cannot keep others
// out, however many they are. If that client itself makes the new call, and its oldest call is
// still young, the new call is refused instead, which costs far less in a flood. If the calls hold
// too many bytes, the calls of the connection that has sent the most bytes end. It is safe for
// concurrent use.
type arrivals struct {
	clock   func() time.Time
	bytes   int64 // limit of received
	timeout time.Duration
	refusal error // the error of every refused call, so that a flood needs no allocation for each call

	mu       sync.Mutex
	calls    *limits.Room[*Arrival]
	received int64 // bytes received by connections that have calls whose requests have not arrived
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
	end    chan error   // receives the reason for which the server ends the call
	left   bool         // its request has arrived, or the call has ended; guarded by arrivals.mu
}

// admit adds a call whose headers have arrived and whose request has not, or refuses the call. It
// does not block.
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

// tooMany is the text of the error of calls that are refused, or that the server ends.
const tooMany = "too many calls wait for their requests"

// enter adds a call, and ends another one if there are too many. It returns false if the call is refused.
func (a *arrivals) enter(call *Arrival) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	gone, entered := a.calls.Enter(call.client, call, nil)
	if !entered { // no other client has more calls
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

// evictBytes ends calls if all of them together have received too many bytes: those of the
// connections that have sent the most, until a quarter of the limit is free. mu is held.
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

// leave removes a call whose request has arrived, or that has ended. It may be called more than
// once.
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
