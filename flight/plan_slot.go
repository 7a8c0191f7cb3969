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

// newCallQueue returns the queue of calls that plan, or make an answer, at the same time: each takes a processor, and memory. One client
// may have a percentage of the places, and waits for at most one call of each other client. full is the error of a call that cannot
// even wait.
func newCallQueue(places, percent int, clock func() time.Time, full func(limits.Counts) error) *limits.Queue {
	return limits.NewQueue(limits.Options{
		Places: places, Percent: percent, Local: true, Claims: maxPlanWaits, Bytes: maxPlanWaitBytes, Costly: true, Clock: clock, Full: full,
	})
}

// manyPlans is the error of a call that cannot wait for a plan slot.
func manyPlans(now limits.Counts) error {
	return busy("%s already wait for plans", fault.Count(now.Waiting, "call"))
}

// noPlanSlot ends the wait of a call for a plan slot.
func noPlanSlot() (more time.Duration, err error) {
	return 0, busy("no plan was finished within %s", planWait)
}

func busy(format string, args ...any) error {
	e := fault.New(fault.Exhausted, format, args...)
	e.RetryAfter = time.Second
	return e.WithRemedy("try again later, or use another server")
}

// planSlot is the slot of one call, which takes and returns it as it goes. It belongs to the goroutine of the call.
type planSlot struct {
	calls, plans *limits.Queue // of calls whose plans are known, and of those whose plans are made
	in           *limits.Queue // where it has a slot; nil: it has none
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

func (s *planSlot) enter(ctx context.Context, into *limits.Queue) error {
	claim := &limits.Claim{Client: s.client, Bytes: s.bytes}
	err := into.Enter(ctx, claim, planWait, noPlanSlot)
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
