package flight

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/failure"
	"github.com/penstock/penstock/flight/frames"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// minAnswers and answerDivisor set the size of the account of answers, which bounds the bytes
	// of answers that clients have not read.
	minAnswers    = 16 << 20
	answerDivisor = 4
	// maxUnreserved bounds the bytes of answers that are sent although the budget has no room for them: small ones, so that
	// clients can plan while streams use the whole budget.
	maxUnreserved = 4 << 20
	// answerRest is the number of bytes that a call holds, besides its answer, until the answer is
	// written.
	answerRest = 4 << 10
)

// answers charges the answers of calls, and the messages of streams that have no batch, until they
// are written. It charges them to the budget and to an account of their own, which works like the
// account of batches in flight. Because the accounts are separate, a client that stops reading its
// answers cannot starve streams.
type answers struct {
	inflight   *frames.Inflight
	budget     *budget.Budget // nil: unlimited
	codec      frames.Codec
	unreserved atomic.Int64 // bytes of answers that were sent without a reservation
}

func newAnswers(of *budget.Budget, maxTransit int64, clock func() time.Time) *answers {
	limit := int64(0)
	if maxTransit > 0 {
		limit = max(minAnswers, maxTransit/answerDivisor)
	}
	return &answers{inflight: frames.NewInflight(limit, clock), budget: of, codec: frames.NewCodec()}
}

// encodedAnswer is a message in its wire format.
type encodedAnswer struct {
	encoded    mem.BufferSlice
	parts      mem.BufferSlice // of encoded, under a lease
	held       *budget.Reservation
	unreserved *atomic.Int64 // counts bytes instead of held; nil: held is used
	bytes      int64
}

// Marshal implements frames.Marshaler.
func (a *encodedAnswer) Marshal() mem.BufferSlice { return a.parts }

// Release implements frames.Payload.
func (a *encodedAnswer) Release() {
	a.encoded.Free()
	if a.held != nil {
		a.held.Release()
	}
	if a.unreserved != nil {
		a.unreserved.Add(-a.bytes)
	}
}

// MarkInFlight implements frames.Payload.
func (a *encodedAnswer) MarkInFlight() {
	if a.held != nil {
		a.held.MarkInFlight()
	}
}

// MarkStalled implements frames.Payload.
func (a *encodedAnswer) MarkStalled() {
	if a.held != nil {
		a.held.MarkStalled()
	}
}

// encode returns a message in its wire format, with a lease that the caller releases.
func (a *answers) encode(m any, of *frames.StreamInflight) (*encodedAnswer, *frames.Lease, error) {
	encoded, err := a.codec.Marshal(m)
	if err != nil {
		return nil, nil, fault.New(fault.Internal, "write an answer: %w", err)
	}
	out := &encodedAnswer{encoded: encoded}
	out.bytes = int64(encoded.Len()) + answerRest
	if err := a.charge(out); err != nil {
		encoded.Free()
		return nil, nil, err
	}
	l := frames.NewLease(out, []batch.Reserved{{ID: out, Bytes: out.bytes}}, of)
	if mem.IsBelowBufferPoolingThreshold(encoded.Len()) {
		out.parts = l.LendShort(encoded.Materialize())
		return out, l, nil
	}
	for _, part := range encoded {
		out.parts = l.Lend(out.parts, part.ReadOnlyData())
	}
	return out, l, nil
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

// cutStalled closes the connections of clients that have read nothing of an answer for the time
// after.
func (a *answers) cutStalled(after time.Duration) {
	for _, p := range a.inflight.Stalled(after) {
		p.Disconnect(fault.New(fault.Unavailable, "the client has not read its answer for %s", after).WithRemedy("call again, and read the answer"))
	}
}

// chargedStream is the stream of a call whose messages are charged until they are written.
type chargedStream struct {
	inContext
	answers *answers
	call    *call.Call
	of      *frames.StreamInflight
}

// charged returns the stream of a call whose messages are charged, and a function that ends it.
func (a *answers) charged(stream grpc.ServerStream, c *call.Call) (grpc.ServerStream, func()) {
	ctx, end := context.WithCancelCause(stream.Context())
	of := a.inflight.Enter(c.Connection.Client(), failure.EndsByServer(end))
	return &chargedStream{inContext: inContext{stream, ctx}, answers: a, call: c, of: of}, func() {
		of.Release()
		end(nil)
	}
}

// SendMsg implements grpc.ServerStream. Streams of batches charge their messages themselves.
func (s *chargedStream) SendMsg(m any) error {
	switch m.(type) {
	case *frames.Frame, *encodedAnswer:
		return s.ServerStream.SendMsg(m)
	}
	return s.answers.send(s.ctx, s.call, s.ServerStream, m, s.of)
}

// send sends a message of a call once it is admitted to an account.
func (a *answers) send(ctx context.Context, c *call.Call, to grpc.ServerStream, m any, of *frames.StreamInflight) error {
	answer, lease, err := a.encode(m, of)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := of.Admit(ctx, lease); err != nil {
		answer.parts.Free()
		return err
	}
	c.Slot.Leave() // the client decides how long the rest takes
	return to.SendMsg(answer)
}
