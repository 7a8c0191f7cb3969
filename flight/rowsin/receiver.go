package rowsin

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// receiver receives the messages of a call. While a message is in use, it receives the next one if
// memory is plentiful. Before a message is received, twice the maximum size of a message is
// reserved: once for the encoded message and once for the decoded message.
type receiver struct {
	source Source
	pace   Pace
	budget *budget.Budget
	limit  int64    // the maximum bytes of a message
	ahead  *arrival // the message after the one in use; nil: no goroutine receives it
	// bodies reuses the memory of messages that are no longer in use. It is replaced while memory is not plentiful, so that it then
	// keeps none.
	bodies memory.Allocator
}

func newReceiver(source Source, o Options) *receiver {
	return &receiver{source: source, pace: o.Pace, budget: o.Budget, limit: o.Limit, bodies: batch.NewBoundedAllocator(o.Limit)}
}

// arrival is a message that is being received.
type arrival struct {
	held    *budget.Reservation
	done    chan struct{} // closed when message or err is set
	message *message
	err     error
}

// begin receives a message in a goroutine, which ends at the latest when the call ends. The
// reservation must have twice the limit.
func (r *receiver) begin(held *budget.Reservation) *arrival {
	a, bodies := &arrival{held: held, done: make(chan struct{})}, r.bodies
	go func() {
		defer close(a.done)
		m := &message{memory: bodies}
		a.err = r.source.RecvMsg(m)
		a.message = m
	}()
	return a
}

// receive returns the next message and the reservation of its memory, which replaces that of the
// previous message. It fails if the client, which has sent the given number of bytes so far, is too
// slow. The caller owns the reservation in every case.
func (r *receiver) receive(ctx context.Context, held *budget.Reservation, received int64) (*message, *budget.Reservation, error) {
	a := r.ahead
	if r.ahead = nil; a != nil {
		held.Release()
		held = a.held
	} else {
		if more := 2*r.limit - held.Held(); more > 0 {
			if err := held.GrowWait(ctx, more); err != nil {
				return nil, held, err
			}
		}
		a = r.begin(held)
	}
	err := r.pace.Wait(ctx, a.done, received)
	if (err == nil || ctx.Err() != nil) && a.ended() { // if a message is too large, gRPC ends ctx: the arrival then has the reason
		return a.message, held, a.failure(r.limit)
	}
	return nil, held, err
}

// receiveAhead begins to receive the message after the one in use, if memory is plentiful.
func (r *receiver) receiveAhead() error {
	if r.ahead != nil {
		return nil
	}
	if !r.budget.Plentiful() {
		r.bodies = batch.NewBoundedAllocator(r.limit)
		return nil
	}
	held, err := r.budget.Reserve("rows that a client sends", 0)
	if err != nil {
		return err
	}
	if held.Grow(2*r.limit) == nil {
		r.ahead = r.begin(held)
	}
	return nil
}

// cause returns the reason for which the message after the one in use was not received, if that is
// known, and otherwise err.
func (r *receiver) cause(err error) error {
	if r.ahead != nil && r.ahead.ended() && status.Code(r.ahead.err) == codes.ResourceExhausted {
		return r.ahead.failure(r.limit)
	}
	return err
}

// close releases the memory of the message after the one in use.
func (r *receiver) close() {
	if r.ahead != nil {
		r.ahead.held.Release()
	}
}

// ended reports whether the goroutine has ended.
func (a *arrival) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// failure returns the error that explains why no message was received, or nil. The goroutine must
// have ended.
func (a *arrival) failure(limit int64) error {
	if status.Code(a.err) == codes.ResourceExhausted {
		return tooLargeBatch(limit)
	}
	return a.err
}
