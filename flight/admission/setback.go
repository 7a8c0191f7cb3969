package admission

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/budget"
)

// raiseAfter is how long memory must not have lacked before one stream more may be open: a stream
// that has just begun does not yet hold what it needs.
const raiseAfter = 2 * time.Second

// lack is the memory that a stream lacks since its last step.
type lack struct {
	err   error     // why the last try failed; nil: the stream lacks nothing
	until time.Time // when it stops trying
	turn  int64     // of the admission, when the stream was set back
}

// Within calls do when the stream has a slot, and again when it has the next one if do failed as Again describes.
func (p *Slot) Within(ctx context.Context, do func() error, undo func() bool) error {
	for {
		if err := p.Enter(ctx); err != nil {
			return err
		}
		if err := do(); !p.Again(ctx, err, undo) {
			return err
		}
	}
}

// Again reports whether a step should be tried again when the stream has its next slot. If the step failed for lack of memory
// while other streams are open, the stream is set back: undo releases what the step left, and may be nil, and the stream returns
// its slot. It is not set back if undo fails, or when it has no more time.
func (p *Slot) Again(ctx context.Context, failed error, undo func() bool) bool {
	if failed == nil {
		p.lacks = lack{}
		return false
	}
	if !budget.Crowded(failed) || ctx.Err() != nil || !p.mayRetry() || undo != nil && !undo() {
		return false
	}
	p.setBack(failed)
	return true
}

// mayRetry reports whether the stream may still be set back.
func (p *Slot) mayRetry() (may bool) {
	a := p.admission
	a.Look(func() {
		may = a.Current().Places > 0 && (p.lacks.err == nil || a.clock().Before(p.lacks.until) || a.moreTime(p) > 0)
	})
	return may
}

// moreTime returns for how long a stream may try after maxWait. While the budget carries fewer streams than
// there are slots, all streams that wait take turns: none fails before no stream has left for maxWait. The lock is held.
func (a *Slots) moreTime(p *Slot) time.Duration {
	now := a.Current()
	if now.Most == now.Places || !p.Claim.Has() && a.Held(p.Claim.Client)+a.needs(p) > now.Share {
		return 0
	}
	return a.left.Add(maxWait).Sub(a.clock())
}

// setBack returns the slot of a stream that lacks memory, if it has one. As many streams as are left may be open
// until memory is plentiful: the budget carries no more.
func (p *Slot) setBack(err error) {
	a := p.admission
	a.Change(func() {
		if p.lacks.err == nil {
			p.lacks.until = a.clock().Add(maxWait)
		}
		if p.Claim.Has() {
			p.leave()
		}
		p.lacks.err, p.lacks.turn = err, a.turns
		a.carry(max(1, a.Current().Taken))
		for _, gangs := range a.gangs {
			for _, g := range gangs {
				g.kept.Release()
			}
		}
	})
}

// carry limits how many streams may be open. The lock is held.
func (a *Slots) carry(streams int) {
	a.Limit(streams)
	a.changed = a.clock()
}

// mayTry reports whether a stream may have a slot. One that was set back may have one when another
// stream has left since, or after Relax. The lock is held.
func (a *Slots) mayTry(p *Slot) bool {
	return p.lacks.err == nil || p.lacks.turn < a.turns
}

// Relax is called again and again. While memory is plentiful, one stream more may be open after each
// raiseAfter. Then, and if no stream is open, those that were set back may try again.
func (a *Slots) Relax(plentiful bool) {
	a.Change(func() {
		now := a.Current()
		switch {
		case plentiful && now.Waiting == 0:
			a.Limit(now.Places)
		case plentiful && a.clock().Sub(a.changed) >= raiseAfter:
			a.carry(max(now.Most, now.Taken+now.Kept+1))
		}
		if plentiful || now.Taken == 0 {
			a.turns++
		}
	})
}
