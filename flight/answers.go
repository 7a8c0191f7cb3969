package flight

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// minAnswers and answerDivisor bound the bytes of answers that clients have not read: those in the account of answers.
	minAnswers    = 16 << 20
	answerDivisor = 4
	// maxUnreserved bounds the bytes of answers that are sent although the budget has no room for them: small ones, so that
	// clients can plan while streams use the whole budget.
	maxUnreserved = 4 << 20
	// answerRest is what a call holds besides the bytes of its answer, until that is written.
	answerRest = 4 << 10
)

// answers charges the answers of calls, and messages of streams without a batch, until they are written: to the budget, and
// to an account like that of batches in flight. The account is separate, so a client that stops reading its answers cannot
// starve streams.
type answers struct {
	inflight   *inflightBatches
	budget     *budget.Budget // nil: unlimited
	codec      codec
	unreserved atomic.Int64 // bytes of answers that the budget had no room for
}

func newAnswers(of *budget.Budget, maxTransit int64, clock func() time.Time) *answers {
	limit := int64(0)
	if maxTransit > 0 {
		limit = max(minAnswers, maxTransit/answerDivisor)
	}
	return &answers{inflight: newInflightBatches(limit, clock), budget: of, codec: newCodec()}
}

// encodedAnswer is a message as it is on the wire.
type encodedAnswer struct {
	encoded    mem.BufferSlice
	parts      mem.BufferSlice // of encoded, under a lease
	held       *budget.Reservation
	unreserved *atomic.Int64 // counts bytes instead of held; nil: held is used
	bytes      int64
}

// Release frees the message. A nil answer holds nothing.
func (a *encodedAnswer) Release() {
	if a == nil {
		return
	}
	a.encoded.Free()
	if a.held != nil {
		a.held.Release()
	}
	if a.unreserved != nil {
		a.unreserved.Add(-a.bytes)
	}
}

func (a *encodedAnswer) markInFlight() {
	if a != nil && a.held != nil {
		a.held.MarkInFlight()
	}
}

func (a *encodedAnswer) markStalled() {
	if a != nil && a.held != nil {
		a.held.MarkStalled()
	}
}

// encode returns a message as it is on the wire, with a lease that the caller releases.
func (a *answers) encode(m any, of *streamInflight) (*batchLease, error) {
	encoded, err := a.codec.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Internal, "write an answer: %w", err)
	}
	out := &encodedAnswer{encoded: encoded}
	out.bytes = int64(encoded.Len()) + answerRest
	if err := a.charge(out); err != nil {
		encoded.Free()
		return nil, err
	}
	l := &batchLease{answer: out, inflight: of, bytes: out.bytes}
	l.reserved = []batch.Reserved{{ID: l, Bytes: out.bytes}}
	l.parts.Store(1)
	if mem.IsBelowBufferPoolingThreshold(encoded.Len()) {
		out.parts = l.lendShort(encoded.Materialize())
		return l, nil
	}
	for _, part := range encoded {
		out.parts = l.lend(out.parts, part.ReadOnlyData())
	}
	return l, nil
}

// lendShort returns a copy of a short message that is a part, which gRPC counts references to by its capacity.
func (l *batchLease) lendShort(text []byte) mem.BufferSlice {
	capacity := len(text)
	for mem.IsBelowBufferPoolingThreshold(capacity) {
		capacity = 2*capacity + 1
	}
	part := append(make([]byte, 0, capacity), text...)
	l.parts.Add(1)
	return mem.BufferSlice{mem.NewBuffer(&part, l)}
}

// charge reserves the bytes of an answer.
func (a *answers) charge(out *encodedAnswer) error {
	held, err := a.budget.Reserve("an answer", out.bytes)
	if err == nil {
		out.held = held
		return nil
	}
	if a.unreserved.Add(out.bytes) > maxUnreserved {
		a.unreserved.Add(-out.bytes)
		return err
	}
	out.unreserved = &a.unreserved
	return nil
}

// cutStalled closes the connections of clients that have taken nothing of an answer for a time.
func (a *answers) cutStalled(after time.Duration) {
	for _, p := range a.inflight.stalled(after) {
		p.disconnect(fault.New(fault.Unavailable, "the client has not read its answer for %s", after).WithRemedy("call again, and read the answer"))
	}
}

// answering is a call whose messages are charged until they are written.
type answering struct {
	inContext
	answers *answers
	call    *call
	of      *streamInflight
}

// answering returns a call whose messages are charged, and what ends it.
func (a *answers) answering(stream grpc.ServerStream, c *call) (grpc.ServerStream, func()) {
	ctx, end := context.WithCancelCause(stream.Context())
	of := a.inflight.enter(c.connection, end)
	return &answering{inContext: inContext{stream, ctx}, answers: a, call: c, of: of}, func() {
		of.Release()
		end(nil)
	}
}

// SendMsg implements grpc.ServerStream. Streams of batches charge their messages themselves.
func (s *answering) SendMsg(m any) error {
	switch m.(type) {
	case *frame, *encodedAnswer:
		return s.ServerStream.SendMsg(m)
	}
	return s.answers.send(s.ctx, s.call, s.ServerStream, m, s.of)
}

// send sends a message of a call once it is admitted to an account.
func (a *answers) send(ctx context.Context, c *call, to grpc.ServerStream, m any, of *streamInflight) error {
	lease, err := a.encode(m, of)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := of.admit(ctx, lease); err != nil {
		lease.answer.parts.Free()
		return err
	}
	c.slot.leave() // the client decides how long the rest takes
	return to.SendMsg(lease.answer)
}
