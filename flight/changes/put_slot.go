package changes

import (
	"context"
	"time"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
)

// While other calls wait for its slot, a call that writes rows may wait for its client for a total
// of putGrace plus one second per putRate bytes received.
const (
	putGrace = 20 * time.Second // shorter than call.SlotWait, so that a call that waits gets the slot
	putRate  = 64 << 10
)

// putSlot is the slot of a call that writes rows. It belongs to the goroutine of the call.
type putSlot struct {
	slots   *limits.Queue
	claim   *limits.Claim
	timeout time.Duration // for one message
	clock   func() time.Time
	waited  time.Duration // for the client, so far
}

// slot waits for a slot for calls that write rows. The total bytes held by waiting calls are
// bounded. The caller must call leave.
func (w *Service) slot(ctx context.Context, c *call.Call, holds int64) (*putSlot, error) {
	defer waits.Begin(ctx, waits.Slot)()
	p := &putSlot{slots: w.slots, timeout: w.options.PutTimeout, clock: w.options.Ticks}
	p.claim = &limits.Claim{Client: c.Writer(), Bytes: holds}
	err := w.slots.Enter(ctx, p.claim, call.SlotWait, func() (time.Duration, error) { return 0, manyWrites(w.slots.Counts()) })
	if err != nil {
		return nil, err
	}
	return p, nil
}

// manyWrites is the error of a call that cannot wait, or wait any longer, for a write slot.
func manyWrites(now limits.Counts) error {
	return call.Busy("other calls that write rows take all %d slots of the server", now.Places)
}

// leave returns the slot. It may be called more than once.
func (p *putSlot) leave() { p.claim.Leave() }

// Wait waits until the client has done something. It fails if the call ends, if the client takes
// too long, or if another call waits for the slot and the client has used up the time that its
// bytes allow.
func (p *putSlot) Wait(ctx context.Context, done <-chan struct{}, received int64) error {
	began := p.clock()
	defer func() { p.waited += p.clock().Sub(began) }()
	timeout := time.NewTimer(p.timeout)
	defer timeout.Stop()
	late := time.NewTimer(putGrace + time.Duration(received/putRate)*time.Second - p.waited)
	defer late.Stop()
	var queued <-chan struct{}
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return fault.New(fault.Unavailable, "the client has sent nothing whole for %s", p.timeout).
				WithRemedy("repeat the call; send batches sooner, or smaller ones")
		case <-late.C:
		case <-queued:
		}
		queued = p.slots.Queued()
		if p.slots.Yield(p.claim) {
			return fault.New(fault.Unavailable, "another call waits for the slot of this one, whose client has sent %d bytes and was waited for %s",
				received, (p.waited + p.clock().Sub(began)).Round(time.Second)).
				WithRemedy("repeat the call with the same token; make the rows ready before the call, or in larger batches")
		}
	}
}

// send sends a message within the same bounds as Wait, so that a client that reads nothing does not
// keep its slot.
func (p *putSlot) send(ctx context.Context, received int64, send func() error) error {
	var err error
	done := make(chan struct{})
	go func() { // it ends with the call
		defer close(done)
		err = send()
	}()
	if failed := p.Wait(ctx, done, received); failed != nil {
		return failed
	}
	return err
}
