package flight

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

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
	// forgetHalf is the time in which half of the time that a host has used is forgotten.
	forgetHalf = 30 * time.Second
	// usedUnit is how much time makes a difference: less counts as none.
	usedUnit = time.Second
	// maxKnownHosts bounds the hosts without calls whose used time is remembered.
	maxKnownHosts = 4096
)

// planSlots limits the calls that plan, or make an answer, at the same time: each takes a processor, and memory. A free slot
// goes to the host with the fewest slots, then least recent use (in seconds), then longest since its last slot. So a host waits
// for at most one call of each other host. It is safe for concurrent use.
type planSlots struct {
	limit int // slots
	share int // slots of one host; that of Unix domain sockets is "", and may have all
	clock func() time.Time
	// patience is how long a call waits for a slot: planWait, except in tests.
	patience time.Duration

	mu      sync.Mutex
	taken   int
	hosts   map[string]*planHost
	waiting []*planWaiter // in order of arrival
	turn    int64         // counts the calls that got slots, and the hosts that came
	bytes   int64         // of the requests of those that wait
	ceded   int           // slots whose calls are ending for calls that wait: see cede
	queued  chan struct{} // closed, and replaced, when a call begins to wait
}

// planHost is what a host has of the slots.
type planHost struct {
	taken, waiting int
	ceded          int   // see cede
	bytes          int64 // of the requests of its calls that wait
	used           time.Duration
	at             time.Time // of used
	turn           int64     // of planSlots, when a call of the host came or got a slot
}

// before reports whether a free slot goes to a host before it goes to another one.
func (h *planHost) before(o *planHost) bool {
	return cmp.Or(cmp.Compare(h.taken, o.taken), cmp.Compare(h.used/usedUnit, o.used/usedUnit), cmp.Compare(h.turn, o.turn)) < 0
}

// planWaiter is a call that waits for a slot.
type planWaiter struct {
	host  string
	bytes int64
	got   chan struct{} // closed when it has the slot, or is refused
	err   error         // why it is refused; valid once got is closed
}

// counts returns how many calls have slots, and how many wait.
func (s *planSlots) counts() (taken, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, len(s.waiting)
}

// newPlanSlots returns a number of slots, of which one host may have a percentage.
func newPlanSlots(limit, percent int, clock func() time.Time) *planSlots {
	return &planSlots{limit: limit, share: shareOf(limit, percent), clock: clock, patience: planWait, hosts: map[string]*planHost{}, queued: make(chan struct{})}
}

// enter waits for a slot. The caller calls leave, which may be called more than once.
func (p *planSlots) enter(ctx context.Context, host string, bytes int64) (leave func(), err error) {
	w := &planWaiter{host: host, bytes: bytes, got: make(chan struct{})}
	p.arrive(w)
	timeout := time.NewTimer(p.patience)
	defer timeout.Stop()
	select {
	case <-w.got:
	case <-ctx.Done():
		p.abandon(w, context.Cause(ctx))
	case <-timeout.C:
		p.abandon(w, planBusy("no plan was finished within %s", p.patience))
	}
	if w.err != nil {
		return nil, w.err
	}
	began := p.clock()
	return sync.OnceFunc(func() { p.leave(host, p.clock().Sub(began)) }), nil
}

func planBusy(format string, args ...any) error {
	e := fault.New(fault.Exhausted, format, args...)
	e.RetryAfter = time.Second
	return e.WithRemedy("try again later, or use another server")
}

// arrive adds a call to the queue. If the queue is full, the last call of the host that fills it most is refused.
func (p *planSlots) arrive(w *planWaiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[w.host]
	if h == nil {
		p.forgetIdle()
		p.turn++
		h = &planHost{at: p.clock(), turn: p.turn}
		p.hosts[w.host] = h
	}
	h.waiting++
	h.bytes += w.bytes
	p.bytes += w.bytes
	p.waiting = append(p.waiting, w)
	p.grant()
	for len(p.waiting) > maxPlanWaits || p.bytes > maxPlanWaitBytes && len(p.waiting) > 1 {
		p.finish(p.last(p.bytes > maxPlanWaitBytes), planBusy("%s already wait for plans", fault.Count(len(p.waiting)-1, "call")))
	}
	if slices.Contains(p.waiting, w) {
		close(p.queued)
		p.queued = make(chan struct{})
	}
}

// arrivals returns a channel that is closed when the next call begins to wait.
func (p *planSlots) arrivals() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued
}

// cede reports whether a call of a host should end because another call waits that could have its slot. No more calls end
// than wait.
func (p *planSlots) cede(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	could := 0
	for _, w := range p.waiting {
		if w.host == host || w.host == "" || p.hosts[w.host].taken < p.share {
			could++
		}
	}
	if could <= p.ceded {
		return false
	}
	p.hosts[host].ceded++
	p.ceded++
	return true
}

// last returns the last call of the host that has most calls, or bytes of them, in the queue. mu is held.
func (p *planSlots) last(byBytes bool) *planWaiter {
	var found *planWaiter
	most := int64(0)
	for _, w := range p.waiting {
		has := int64(p.hosts[w.host].waiting)
		if byBytes {
			has = p.hosts[w.host].bytes
		}
		if has >= most {
			found, most = w, has
		}
	}
	return found
}

// grant grants slots while there are any for calls that wait. mu is held.
func (p *planSlots) grant() {
	for p.taken < p.limit {
		var next *planWaiter
		var best *planHost
		for _, w := range p.waiting {
			h := p.hosts[w.host]
			if h == best || w.host != "" && h.taken >= p.share {
				continue
			}
			if p.age(h); next == nil || h.before(best) {
				next, best = w, h
			}
		}
		if next == nil {
			return
		}
		p.taken++
		p.turn++
		best.taken++
		best.turn = p.turn
		p.finish(next, nil)
	}
}

// age forgets some of the time that a host has used. mu is held.
func (p *planSlots) age(h *planHost) {
	now := p.clock()
	h.used = time.Duration(float64(h.used) * math.Exp2(-now.Sub(h.at).Seconds()/forgetHalf.Seconds()))
	h.at = now
}

// finish removes a call from the queue. mu is held.
func (p *planSlots) finish(w *planWaiter, err error) {
	p.waiting = slices.DeleteFunc(p.waiting, func(o *planWaiter) bool { return o == w })
	h := p.hosts[w.host]
	h.waiting--
	h.bytes -= w.bytes
	p.bytes -= w.bytes
	w.err = err
	close(w.got)
}

// abandon ends the wait of a call, unless it has got its slot just now.
func (p *planSlots) abandon(w *planWaiter, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.waiting, w) {
		p.finish(w, why)
	}
}

// leave returns the slot of a host, which has used it for a time.
func (p *planSlots) leave(host string, used time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[host]
	p.age(h)
	h.used += used
	h.taken--
	p.taken--
	if h.ceded > 0 {
		h.ceded--
		p.ceded--
	}
	p.grant()
}

// forgetIdle bounds the hosts that are remembered. mu is held.
func (p *planSlots) forgetIdle() {
	if len(p.hosts) < maxKnownHosts {
		return
	}
	for host, h := range p.hosts {
		if h.taken == 0 && h.waiting == 0 {
			delete(p.hosts, host)
		}
	}
}

// planSlot is the slot of one call, which takes and returns it as it goes. It belongs to the goroutine of the call.
type planSlot struct {
	calls, plans *planSlots // for calls whose plans are known, and for those whose plans are made
	in           *planSlots // where it has a slot; nil: it has none
	left         func()
	host         string
	bytes        int64 // of the request
}

// planSlotKey is the key of a context's plan slot.
type planSlotKey struct{}

// enterCall waits until the call of a context has a slot for calls whose plans are known, or for those that make theirs. Calls that
// did not come over the network need none.
func enterCall(ctx context.Context) error {
	if s, _ := ctx.Value(planSlotKey{}).(*planSlot); s != nil && s.in == nil {
		return s.enter(ctx, s.calls)
	}
	return nil
}

// enterPlan waits until the call of a context has a slot for those that make a plan, or as much else. It has no other one
// meanwhile: calls with known plans do not wait for it.
func enterPlan(ctx context.Context) error {
	s, _ := ctx.Value(planSlotKey{}).(*planSlot)
	if s == nil || s.in == s.plans {
		return nil
	}
	s.leave()
	return s.enter(ctx, s.plans)
}

func (s *planSlot) enter(ctx context.Context, into *planSlots) error {
	left, err := into.enter(ctx, s.host, s.bytes)
	if err == nil {
		s.in, s.left = into, left
	}
	return err
}

// leavePlan returns the plan slot of the call of a context, if it has one.
func leavePlan(ctx context.Context) {
	if s, _ := ctx.Value(planSlotKey{}).(*planSlot); s != nil {
		s.leave()
	}
}

func (s *planSlot) leave() {
	if s.in != nil {
		s.left()
		s.in = nil
	}
}
