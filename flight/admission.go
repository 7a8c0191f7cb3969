package flight

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/dataset"
)

const (
	// maxWait is how long a stream waits for a slot.
	maxWait = 30 * time.Second
	// gathering is how long slots are kept for the shards of a plan that have not come yet:
	// the ranks of one job start within seconds.
	gathering = 10 * time.Second
	// queuePerSlot is how many streams may wait for each slot.
	queuePerSlot = 4
)

// admission assigns slots to streams. Its invariants are:
//   - slots that are taken or kept never exceed the limit;
//   - after a stream was set back for lack of memory, no more streams get slots than had them then,
//     except one by one while memory is plentiful;
//   - no host has more slots than its share, including those kept for its mixes;
//   - the first stream of a mix gets a slot only together with slots for all its streams;
//   - a free slot goes first to a stream that resumes after it was parked, or to a shard
//     whose gang gathers; then to the host with the fewest slots; then in order of arrival.
//
// The ranks of a job wait for each other, so a job cannot run with some of its shards: the
// first shard of a plan keeps slots for its siblings for a while. It keeps at most half of
// the free ones, because it may be the only shard that comes. For the streams of a mix, see
// mixSlots.
//
// A mix that is next, and for which too few slots are free, blocks the streams behind it: no
// longer than it may wait, and no more slots than its streams could take one by one.
type admission struct {
	limit   int             // slots; 0: unlimited, and nothing is counted
	share   int             // slots that one host, or one subject, may have
	closing <-chan struct{} // closed when no new stream is admitted any more; may be nil
	crowded chan<- struct{} // receives when a stream begins to wait; may be nil
	maxWait time.Duration   // the constant, except in tests
	clock   func() time.Time

	mu      sync.Mutex
	taken   int
	kept    int            // of all gangs and mixes
	carries int            // streams that may be open since one was set back; 0: limit
	changed time.Time      // when carries last changed
	left    time.Time      // when a stream last left
	turns   int64          // how often a stream has left or relax has let others try
	hosts   map[string]int // slots taken, or kept for mixes
	gangs   map[gangKey][]*gang
	mixes   map[mixKey]*mixSlots
	waiting []*slot // in order of arrival
}

// caller identifies a stream for admission.
type caller struct {
	host  string
	plan  string
	shard dataset.Shard
	mix   mixHeader
}

// gangKey is what the shards of one job have in common. Jobs that read the same plan in as
// many shards share it too, and may mix in each other's gangs: each gang has enough slots.
type gangKey struct {
	plan string
	of   int
}

// gang is the shards of one plan that have slots at the same time.
type gang struct {
	shards   map[int]struct{} // that have slots; never empty
	kept     int              // slots for shards that have not come
	gathered bool             // nothing is kept any more, and its shards have no priority
	timer    *time.Timer      // ends the gathering
}

// slot is the slot of one stream, or its claim to one. The stream enters. It leaves when it
// ends; parking leaves on its behalf.
type slot struct {
	admission *admission
	host      string
	key       gangKey
	shard     int
	mix       mixKey // zero: it belongs to none
	streams   int    // of its mix

	// Under admission.mu.
	has     bool
	resumes bool          // it had the slot before, and was parked
	gang    *gang         // nil if the plan has one shard
	mixed   *mixSlots     // nil if it belongs to no mix
	got     chan struct{} // while it waits: closed when it has the slot

	// lacks belongs to the stream, which changes it while it does not wait; after a setBack, under admission.mu.
	lacks lack
}

// newAdmission returns an admission of a number of streams, of which one host may have a
// percentage.
func newAdmission(limit, percent int, clock func() time.Time) *admission {
	return &admission{limit: limit, share: shareOf(limit, percent), maxWait: maxWait, clock: clock, hosts: map[string]int{}, gangs: map[gangKey][]*gang{}, mixes: map[mixKey]*mixSlots{}}
}

// of returns the claim of a stream, which has a slot after enter.
func (a *admission) of(c caller) *slot {
	p := &slot{admission: a, host: c.host, key: gangKey{c.plan, c.shard.Of}, shard: c.shard.Index}
	if c.mix.streams > 1 {
		p.mix, p.streams = mixKey{c.host, c.mix.id}, c.mix.streams
	}
	return p
}

// enter waits until the stream has a slot, if it has none.
func (p *slot) enter(ctx context.Context) error {
	got, closing, err := p.arrive()
	if got == nil {
		return err
	}
	select {
	case p.admission.crowded <- struct{}{}:
	default: // a signal is pending, or there is no receiver
	}
	cause, wait := waits.Slot, p.admission.maxWait
	if p.lacks.err != nil {
		cause, wait = waits.Memory, p.lacks.until.Sub(p.admission.clock())
	}
	defer waits.Begin(ctx, cause)()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for err == nil {
		select {
		case <-got:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-closing:
			err = fault.New(fault.Unavailable, "the server is shutting down").WithRemedy("use another server, or this one after its restart")
		case <-timeout.C:
			if more := p.moreTime(); more > 0 {
				timeout.Reset(more)
			} else {
				err = p.timedOut()
			}
		}
	}
	p.Release() // it may have got a slot at the same moment
	return err
}

// arrive takes a slot or enters the queue. In the queue, got is closed when the stream has
// its slot, and closing, which may be nil, when it should stop waiting.
func (p *slot) arrive() (got, closing <-chan struct{}, err error) {
	a := p.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.has || a.limit == 0 {
		return nil, nil, nil
	}
	if p.streams > a.share {
		return nil, nil, p.neverFits()
	}
	p.got = make(chan struct{})
	a.waiting = append(a.waiting, p)
	a.grantAll()
	if p.has {
		return nil, nil, nil
	}
	if !p.resumes && a.queueFull(p) {
		a.unqueue(p)
		e := fault.New(fault.Exhausted, "no slot is free: %s already waiting, and %s open (max_streams)", are(len(a.waiting)), are(a.taken))
		e.RetryAfter = maxWait
		return nil, nil, e.WithRemedy("try again later, use another server, or raise the limit")
	}
	if !p.resumes {
		closing = a.closing
	}
	return p.got, closing, nil
}

// queueFull reports whether the queue has no room for p, which is in it. One host alone
// cannot fill the queue, and the first stream of a host may always wait. mu is held.
func (a *admission) queueFull(p *slot) bool {
	own := 0
	for _, o := range a.waiting {
		if o.host == p.host {
			own++
		}
	}
	return own > queuePerSlot*a.share || own > 1 && len(a.waiting) > queuePerSlot*a.limit
}

// are returns a number of streams as the subject of a sentence.
func are(streams int) string {
	if streams == 1 {
		return "1 stream is"
	}
	return fault.Count(streams, "stream") + " are"
}

// timedOut returns the error of a stream that has waited for too long.
func (p *slot) timedOut() error {
	a := p.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.lacks.err != nil {
		return p.lacks.err
	}
	var e *fault.Error
	remedy := "try again, use another server, or raise the limit"
	switch own := a.hosts[p.host]; {
	case own+a.needs(p) > a.share:
		e = fault.New(fault.Exhausted, "no slot became free within %s: this client has %s open, its share of the %d that this server allows (max_streams, max_peer_share)",
			a.maxWait, fault.Count(own, "stream"), a.limit)
	case a.carries > 0:
		e = fault.New(fault.Exhausted, "no slot became free within %s: %s open, as many as the memory budget carries", a.maxWait, are(a.taken))
		remedy = "try again, use another server, or raise the server's memory budget"
	default:
		e = fault.New(fault.Exhausted, "no slot became free within %s: %s open, of the %d that this server allows (max_streams)", a.maxWait, are(a.taken), a.limit)
	}
	e.RetryAfter = time.Second
	return e.WithRemedy("%s", remedy)
}

// grantAll grants slots while there are any for the streams that wait. mu is held.
func (a *admission) grantAll() {
	for p := a.next(); p != nil; p = a.next() {
		a.unqueue(p)
		a.grant(p)
		close(p.got)
	}
}

// next returns the stream that gets the next slot; nil if none can have one. mu is held.
func (a *admission) next() *slot {
	var first *slot
	fewest := 0 // slots of its host; -1 for streams with priority
	for _, p := range a.waiting {
		if !a.mayTry(p) {
			continue
		}
		if a.keptForMix(p) {
			return p
		}
		needs, has, g := a.needs(p), a.hosts[p.host], a.gangWithout(p)
		if has+needs > a.share {
			continue
		}
		if g != nil && g.kept >= needs {
			return p
		}
		if p.resumes || a.isLate(p) || g != nil && !g.gathered {
			has = -1
		}
		if first == nil || has < fewest {
			first, fewest = p, has
		}
	}
	if first == nil || !a.fits(first) {
		return nil
	}
	return first
}

// fits reports whether there are slots for a stream and, if it is the first of its mix, for
// the others. mu is held.
func (a *admission) fits(p *slot) bool {
	free := a.most() - a.taken - a.kept
	if g := a.gangWithout(p); g != nil {
		free += g.kept
	}
	return a.needs(p) <= free || a.taken+a.kept == 0 // a mix that needs more than the budget carries
}

func (a *admission) unqueue(p *slot) {
	a.waiting = slices.DeleteFunc(a.waiting, func(o *slot) bool { return o == p })
}

// gangWithout returns a gang that lacks the shard of p, preferably one that keeps a slot for
// it; nil if there is none. Only the first stream of a mix belongs to a gang. mu is held.
func (a *admission) gangWithout(p *slot) *gang {
	if a.mixes[p.mix] != nil {
		return nil
	}
	var found *gang
	for _, g := range a.gangs[p.key] {
		if _, there := g.shards[p.shard]; !there && (found == nil || found.kept == 0 && g.kept > 0) {
			found = g
		}
	}
	return found
}

// grant gives a stream a slot, one that is kept for it or else a free one. mu is held.
func (a *admission) grant(p *slot) {
	if m := a.mixes[p.mix]; m != nil {
		a.joinMix(p, m)
		return
	}
	again, needs, g := p.resumes, a.needs(p), a.gangWithout(p)
	p.has, p.resumes = true, true
	a.taken++
	a.hosts[p.host]++
	if needs > 1 {
		a.newMix(p)
	}
	if p.key.of <= 1 {
		return
	}
	if g == nil {
		g = a.newGang(p.key, needs, again)
	} else {
		kept := min(g.kept, needs)
		g.kept -= kept
		a.kept -= kept
	}
	g.shards[p.shard] = struct{}{}
	p.gang = g
}

// newGang starts a gang, and keeps slots for the shards to come, each of which needs as many
// as the first; but not for a shard that resumes, whose siblings have been admitted before.
// mu is held.
func (a *admission) newGang(key gangKey, needs int, again bool) *gang {
	g := &gang{shards: map[int]struct{}{}, gathered: again}
	if !again {
		g.kept = needs * min(key.of-1, max(0, a.most()-a.taken-a.kept+1)/2/needs)
	}
	a.kept += g.kept
	g.timer = time.AfterFunc(gathering, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.endGathering(g)
		a.grantAll()
	})
	a.gangs[key] = append(a.gangs[key], g)
	return g
}

// endGathering frees the slots that a gang keeps. mu is held.
func (a *admission) endGathering(g *gang) {
	a.kept -= g.kept
	g.kept, g.gathered = 0, true
}

// Release returns the slot, or stops waiting for it. It may be called more than once.
func (p *slot) Release() {
	a := p.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if !p.has {
		a.unqueue(p)
		a.grantAll() // a mix that waited may have blocked others
		return
	}
	p.leave()
	a.turns++
	a.left = a.clock()
	a.grantAll()
}

// leave returns the slot. mu is held.
func (p *slot) leave() {
	a := p.admission
	p.has = false
	a.taken--
	a.leaveHost(p.host, 1)
	if m := p.mixed; m != nil {
		p.mixed = nil
		a.leaveMix(p.mix, m)
	}
	if g := p.gang; g != nil {
		p.gang = nil
		delete(g.shards, p.shard)
		if len(g.shards) == 0 {
			a.disband(p.key, g)
		}
	}
}

// leaveHost returns slots of a host. mu is held.
func (a *admission) leaveHost(host string, slots int) {
	if a.hosts[host] -= slots; a.hosts[host] == 0 {
		delete(a.hosts, host)
	}
}

// disband removes a gang without shards. mu is held.
func (a *admission) disband(key gangKey, g *gang) {
	g.timer.Stop()
	a.endGathering(g)
	a.gangs[key] = slices.DeleteFunc(a.gangs[key], func(o *gang) bool { return o == g })
	if len(a.gangs[key]) == 0 {
		delete(a.gangs, key)
	}
}

// wanted reports whether a stream has a slot that one of the waiting streams could have.
func (a *admission) wanted(of *slot) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return of.has && slices.ContainsFunc(a.waiting, func(p *slot) bool { return p.host == of.host || a.hosts[p.host]+a.needs(p) <= a.share })
}

// waits returns how many streams wait.
func (a *admission) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}
