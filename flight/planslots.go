package flight

import (
	"context"
	"time"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// maxPlanWaits and maxPlanWaitBytes bound the calls that wait for a plan slot, and the bytes of their requests.
	maxPlanWaits     = 1024
	maxPlanWaitBytes = 16 << 20
	// A call whose plan is known takes little: callSlots for each processor, and at least minCallSlots, have room for those that wait
	// for storage or for a plan that another one makes.
	callSlots    = 4
	minCallSlots = 16
	// manyTickets is how many tickets take about as long as a plan.
	manyTickets = 64
	// planWait is how long a call waits for a plan slot.
	planWait = 30 * time.Second
)

// planSlots limits the calls that plan, or make an answer, at the same time: each takes a processor, and memory. Free slots go to
// clients by the rule of package limits, so a client waits for at most one call of each other client. It is safe for concurrent use.
type planSlots struct {
	*limits.Queue
	// patience is how long a call waits for a slot: planWait, except in tests.
	patience time.Duration
}

// newPlanSlots returns a number of slots, of which one client may have a percentage.
func newPlanSlots(slots, percent int, clock func() time.Time) *planSlots {
	return &planSlots{limits.NewQueue(limits.Options{
		Places: slots, Percent: percent, Local: true, Claims: maxPlanWaits, Bytes: maxPlanWaitBytes, Costly: true, Clock: clock,
		Full: func(now limits.Counts) error {
			return planBusy("%s already wait for plans", fault.Count(now.Waiting, "call"))
		},
	}), planWait}
}

// enter waits for a slot of a call, which leaves.
func (p *planSlots) enter(ctx context.Context, client string, bytes int64) (*limits.Claim, error) {
	c := &limits.Claim{Client: client, Bytes: bytes}
	return c, p.Enter(ctx, c, p.patience, func() (time.Duration, error) {
		return 0, planBusy("no plan was finished within %s", p.patience)
	})
}

func planBusy(format string, args ...any) error {
	e := fault.New(fault.Exhausted, format, args...)
	e.RetryAfter = time.Second
	return e.WithRemedy("try again later, or use another server")
}

// planSlot is the slot of one call, which takes and returns it as it goes. It belongs to the goroutine of the call.
type planSlot struct {
	calls, plans *planSlots // for calls whose plans are known, and for those whose plans are made
	in           *planSlots // where it has a slot; nil: it has none
	claim        *limits.Claim
	client       string
	bytes        int64 // of the request
}

// enterCall waits until the call has a slot for calls whose plans are known, or for those that make theirs.
func (s *planSlot) enterCall(ctx context.Context) error {
	if s.in == nil {
		return s.enter(ctx, s.calls)
	}
	return nil
}

// enterPlan waits until the call has a slot for those that make a plan, or as much else. It has no other one meanwhile: calls with
// known plans do not wait for it.
func (s *planSlot) enterPlan(ctx context.Context) error {
	if s.in == s.plans {
		return nil
	}
	s.leave()
	return s.enter(ctx, s.plans)
}

func (s *planSlot) enter(ctx context.Context, into *planSlots) error {
	claim, err := into.enter(ctx, s.client, s.bytes)
	if err == nil {
		s.in, s.claim = into, claim
	}
	return err
}

// leave returns the slot of the call, if it has one.
func (s *planSlot) leave() {
	if s.in != nil {
		s.claim.Leave()
		s.in = nil
	}
}
