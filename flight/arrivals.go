package flight

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
)

// Limits on what a client can make a server hold before its request has arrived. gRPC bounds each connection and each
// call; these bound all of them together.
const (
	maxHeaderBytes   = 16 << 10 // of a call; gRPC counts what references in them stand for
	maxCalls         = 128      // at a time, of one connection
	maxReceived      = 2 << 20  // bytes of a message from a client: queries and cursors
	receiveWindow    = 64 << 10 // bytes that a client may send ahead, on a call and on a connection
	handshakeTimeout = 10 * time.Second
	maxArriving      = 1024             // open calls whose request has not arrived
	maxArrivingBytes = 16 << 20         // that have come of their requests
	arrivalTimeout   = 10 * time.Second // for a request to arrive
	arrivalGrace     = time.Second      // during which a call does not end for another one of its host
	maxRefused       = 1024             // calls of a connection that have a deadline, see connection.keep
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
	calls    *limits.Room[*arrivingCall]
	received int64 // by connections with calls that have not arrived
	senders  map[*countedConn][]*arrivingCall
}

func newArrivals(calls int, clock func() time.Time) *arrivals {
	return &arrivals{
		clock: clock, bytes: maxArrivingBytes, timeout: arrivalTimeout,
		refusal: status.Error(codes.Unavailable, tooMany+"; try again in a second"),
		calls:   limits.NewRoom[*arrivingCall](calls, 100), senders: map[*countedConn][]*arrivingCall{},
	}
}

// arrivingCall is an open call whose request has not arrived.
type arrivingCall struct {
	client string
	at     time.Time
	conn   *countedConn // nil: not known
	end    chan error   // receives why the server ends it
	left   bool         // it has arrived or ended; guarded by arrivals.mu
}

// admit adds a call whose headers have come and whose request has not, or refuses it. It does not block.
func (a *arrivals) admit(ctx context.Context, c *call) error {
	arrival := &arrivingCall{client: c.client(), at: a.clock(), conn: c.connection.counted(), end: make(chan error, 1)}
	if !a.enter(arrival) {
		if _, timed := ctx.Deadline(); timed {
			c.connection.keep()
		}
		return a.refusal
	}
	context.AfterFunc(ctx, func() { a.leave(arrival) })
	c.arrival = arrival
	return nil
}

// tooMany is why calls are refused, or end early.
const tooMany = "too many calls wait for their requests"

// enter adds a call, and ends another one if there are too many. It returns false if the call is refused.
func (a *arrivals) enter(call *arrivingCall) bool {
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
func (a *arrivals) evict(call *arrivingCall, why string) {
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
func (a *arrivals) leave(call *arrivingCall) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !call.left {
		a.remove(call)
	}
}

// remove removes a call. mu is held.
func (a *arrivals) remove(call *arrivingCall) {
	call.left = true
	a.calls.Leave(call.client, call)
	if c := call.conn; c != nil {
		a.senders[c] = slices.DeleteFunc(a.senders[c], func(o *arrivingCall) bool { return o == call })
		if len(a.senders[c]) == 0 {
			delete(a.senders, c)
			a.received -= c.received.end()
		}
	}
}

// arriving receives the request of a call within the time limit.
type arriving struct {
	grpc.ServerStream
	arrivals *arrivals
	call     *call
	arrived  bool
	received bool // the request has come, and more messages may
}

// limitedMessage is a message that is not read if it has more than maxReceived bytes.
type limitedMessage struct {
	message any
	size    int // bytes
}

// Unmarshal reads the message.
func (m *limitedMessage) Unmarshal(parts mem.BufferSlice) error {
	if m.size = parts.Len(); m.size > maxReceived {
		return nil
	}
	return frames.NewCodec().Unmarshal(parts, m.message)
}

// RecvMsg implements grpc.ServerStream. Of the messages of DoPut, the first one is the request. A call that ends early is not
// cancelled: gRPC would send its own status.
func (s *arriving) RecvMsg(m any) error {
	if s.received {
		return s.ServerStream.RecvMsg(m)
	}
	result := make(chan error, 1)
	limited := &limitedMessage{message: m}
	go func() { result <- s.ServerStream.RecvMsg(limited) }() // it ends with the call
	timeout := time.NewTimer(s.arrivals.timeout)
	defer timeout.Stop()
	select {
	case err := <-result:
		s.arrivals.leave(s.call.arrival)
		if err == nil && limited.size > maxReceived {
			return status.Errorf(codes.ResourceExhausted, "the request has %d bytes, more than %d", limited.size, maxReceived)
		}
		if err == nil {
			s.received = true
			s.use(limited.size)
		}
		return err
	case err := <-s.call.arrival.end:
		return err
	case <-timeout.C:
		return fault.New(fault.Invalid, "the request did not arrive within %s", s.arrivals.timeout).WithRemedy("call again")
	}
}

// use counts the call as one of its connection, until done.
func (s *arriving) use(bytes int) {
	s.call.slot.bytes = int64(bytes)
	if conn := s.call.arrival.conn; conn != nil && !s.arrived {
		s.arrived = true
		conn.calls.Add(1)
	}
}

// done ends the use of a call.
func (s *arriving) done() {
	if s.arrived {
		s.call.arrival.conn.calls.Add(-1)
	}
}

// answered returns the description of a service whose methods with one answer are described as streams. gRPC receives the
// request of such a method before any interceptor; of a stream, the handler receives it. Clients see no difference.
func answered(of grpc.ServiceDesc) *grpc.ServiceDesc {
	streams := append([]grpc.StreamDesc{}, of.Streams...)
	for _, m := range of.Methods {
		streams = append(streams, grpc.StreamDesc{StreamName: m.MethodName, ServerStreams: true, Handler: answerOnce(m)})
	}
	of.Methods, of.Streams = nil, streams
	return &of
}

// answerOnce returns the handler of a method with one answer.
func answerOnce(m grpc.MethodDesc) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) error {
		answer, err := m.Handler(service, stream.Context(), stream.RecvMsg, nil)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}
