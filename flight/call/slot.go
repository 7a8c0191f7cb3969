package call

import (
	"context"
	"time"

	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/internal/fault"
)

const (
	// maxWaits and maxWaitBytes bound the calls that wait for a plan slot, and the bytes of their requests.
	maxWaits     = 1024
	maxWaitBytes = 16 << 20
	// SlotWait is how long a call waits for a plan slot.
	SlotWait = 30 * time.Second
)

// NewQueue returns a queue that limits the calls that plan or answer at the same time, because each
// uses a processor and memory. One client may use a percentage of the slots, and waits for at most
// one call of each other client. full is the error of a call that cannot wait.
func NewQueue(places, percent int, clock func() time.Time, full func(limits.Counts) error) *limits.Queue {
	return limits.NewQueue(limits.Options{
		Places: places, Percent: percent, Local: true, Claims: maxWaits, Bytes: maxWaitBytes, Costly: true, Clock: clock, Full: full,
	})
}

// ManyPlans is the error of a call that cannot wait for a plan slot.
func ManyPlans(now limits.Counts) error {
	return Busy("%s already wait for plans", fault.Count(now.Waiting, "call"))
}

// noPlanSlot ends the wait of a call for a plan slot.
func noPlanSlot() (more time.Duration, err error) {
	return 0, Busy("no plan was finished within %s", SlotWait)
}

// Busy returns the error of a call that gets no slot.
func Busy(format string, args ...any) error {
	e := fault.New(fault.Exhausted, format, args...)
	e.RetryAfter = time.Second
	return e.WithRemedy("try again later, or use another server")
}

// Slot is the slot of one call, which may take and return it several times. It belongs to the
// goroutine of the call.
type Slot struct {
	Calls, Plans *limits.Queue // of calls whose plans are known, and of those whose plans are made
	in           *limits.Queue // where it has a slot; nil: it has none
	claim        *limits.Claim
	Client       string
	Bytes        int64 // of the request
}

// EnterCall waits for a slot for calls whose plans are known, or for calls that make a plan.
func (s *Slot) EnterCall(ctx context.Context) error {
	if s.in == nil {
		return s.enter(ctx, s.Calls)
	}
	return nil
}

// EnterPlan waits for a slot for calls that make a plan or do similar work. It first returns the
// call's other slot, so that calls with known plans do not wait for it.
func (s *Slot) EnterPlan(ctx context.Context) error {
	if s.in == s.Plans {
		return nil
	}
	s.Leave()
	return s.enter(ctx, s.Plans)
}

func (s *Slot) enter(ctx context.Context, into *limits.Queue) error {
	claim := &limits.Claim{Client: s.Client, Bytes: s.Bytes}
	err := into.Enter(ctx, claim, SlotWait, noPlanSlot)
	if err == nil {
		s.in, s.claim = into, claim
	}
	return err
}

// Leave returns the slot of the call, if it has one.
func (s *Slot) Leave() {
	if s.in != nil {
		s.claim.Leave()
		s.in = nil
	}
}
