package flight

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

const (
	// placePatience is how long a stream waits for a place.
	placePatience = 30 * time.Second
	// gathering is how long places are kept for the shards of a plan that have not
	// come yet: ranks of one job start within seconds.
	gathering = 10 * time.Second
	// queueFor is how many streams may wait for each place there is.
	queueFor = 4
)

// admission gives streams their places. It always holds that
//   - places that are taken and kept are no more than the limit;
//   - no host has more than its share;
//   - a place goes to a stream that was parked and goes on, and to a shard whose
//     gang gathers, before others; then to the host that has fewest; then in order of
//     arrival.
//
// Trainers' ranks wait for each other, so that half of a job's shards are worth
// nothing: the first shard of a plan keeps places for its siblings for a while, half
// of those that are free at most, as it may be the only one that comes.
type admission struct {
	limit    int             // places; 0: any number, and nothing is counted
	share    int             // places that one host may have
	closing  <-chan struct{} // closed when nobody new comes in any more; nil: never
	crowded  chan<- struct{} // told when somebody begins to wait; nil: nobody is
	patience time.Duration   // placePatience

	mu      sync.Mutex
	taken   int
	kept    int            // of all gangs
	hosts   map[string]int // places taken
	gangs   map[gangKey][]*gang
	waiting []*place // in order of arrival
}

// caller says whose stream asks for a place.
type caller struct {
	host  string
	plan  string
	shard dataset.Shard
}

// gangKey is what the shards of one job have in common. Jobs that read the same
// plan in as many shards have it in common too, and may sit in each other's
// gangs: there are places for as many.
type gangKey struct {
	plan string
	of   int
}

// gang is shards of one plan that have places side by side.
type gang struct {
	shards map[int]struct{} // that have places; never empty
	kept   int              // places for those that have not come
	over   bool             // the gathering: nothing is kept, and nobody goes first
	lapse  *time.Timer      // ends the gathering
}

// place is a stream's, which has it or not. Its owner enters; whoever parks the
// stream, and its owner at the end, leaves.
type place struct {
	*admission
	caller

	// Under mu.
	has  bool
	been bool          // it had the place before, and left when it was parked
	gang *gang         // nil for the only shard of its plan
	got  chan struct{} // of one that waits: closed when it has the place
}

// newAdmission makes the admission of so many streams, of which one host may
// have a part, in percent.
func newAdmission(limit, percent int) *admission {
	share := max(1, limit*percent/100)
	return &admission{limit: limit, share: share, patience: placePatience, hosts: map[string]int{}, gangs: map[gangKey][]*gang{}}
}

// of makes the place of a stream, which it has when it has entered.
func (a *admission) of(c caller) *place { return &place{admission: a, caller: c} }

// enter waits until the stream has its place, if it does not have it.
func (p *place) enter(ctx context.Context) error {
	got, closing, err := p.arrive()
	if got == nil {
		return err
	}
	select {
	case p.crowded <- struct{}{}:
	default: // it has been told, or there is nobody
	}
	patience := time.NewTimer(p.patience)
	defer patience.Stop()
	select {
	case <-got:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-closing:
		err = fault.New(fault.Unavailable, "the server is shutting down").WithRemedy("ask another server, or this one after its restart")
	case <-patience.C:
		err = p.noneCame()
	}
	p.leave() // it may have got one at the same moment
	return err
}

// arrive lets a stream in, or into the queue: then there is a channel, which is
// closed when it has its place, and perhaps one that says not to wait any more.
func (p *place) arrive() (got, closing <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has || p.limit == 0 {
		return nil, nil, nil
	}
	p.got = make(chan struct{})
	p.waiting = append(p.waiting, p)
	p.settle()
	if p.has {
		return nil, nil, nil
	}
	if !p.been && p.tooMany() {
		p.unqueue(p)
		e := fault.New(fault.Exhausted, "no place is free: waiting already are %s, and %s open (max_streams)", fault.Count(len(p.waiting), "stream"), are(p.taken))
		e.RetryAfter = placePatience
		return nil, nil, e.WithRemedy("try again later, ask another server, or raise the limit")
	}
	if !p.been {
		closing = p.closing
	}
	return p.got, closing, nil
}

// tooMany says whether the queue is full, for the host of its last stream: one host
// alone cannot fill it, and the first stream of a host may always wait. mu is held.
func (p *place) tooMany() bool {
	own := 0
	for _, o := range p.waiting {
		if o.host == p.host {
			own++
		}
	}
	return own > queueFor*p.share || own > 1 && len(p.waiting) > queueFor*p.limit
}

// are counts streams as the subject of a sentence.
func are(streams int) string {
	if streams == 1 {
		return "1 stream is"
	}
	return fault.Count(streams, "stream") + " are"
}

// noneCame says why.
func (p *place) noneCame() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var e *fault.Error
	if own := p.hosts[p.host]; own >= p.share {
		e = fault.New(fault.Exhausted, "no place came within %s: this host has %s open, its share of the %d that this server takes (max_streams, max_peer_share)",
			p.patience, fault.Count(own, "stream"), p.limit)
	} else {
		e = fault.New(fault.Exhausted, "no place came within %s: %s open, of the %d that this server takes (max_streams)", p.patience, are(p.taken), p.limit)
	}
	e.RetryAfter = time.Second
	return e.WithRemedy("try again, ask another server, or raise the limit")
}

// settle gives places as long as there are any for those who wait. mu is held.
func (a *admission) settle() {
	for p := a.next(); p != nil; p = a.next() {
		a.unqueue(p)
		a.admit(p)
		close(p.got)
	}
}

// next is who is to have the next place; nil if nobody may have one. mu is held.
func (a *admission) next() *place {
	var first *place
	fewest := 0 // places that its host has; none counts for those that go first
	for _, p := range a.waiting {
		has, g := a.hosts[p.host], a.missing(p.caller)
		if has >= a.share {
			continue
		}
		if g != nil && g.kept > 0 {
			return p
		}
		if p.been || g != nil && !g.over {
			has = -1
		}
		if first == nil || has < fewest {
			first, fewest = p, has
		}
	}
	if a.taken+a.kept == a.limit {
		return nil
	}
	return first
}

func (a *admission) unqueue(p *place) {
	a.waiting = slices.DeleteFunc(a.waiting, func(o *place) bool { return o == p })
}

// missing finds the gang that a shard is missing in, if possible one that keeps a
// place for it; nil if there is none. mu is held.
func (a *admission) missing(c caller) *gang {
	var found *gang
	for _, g := range a.gangs[gangKey{c.plan, c.shard.Of}] {
		if _, there := g.shards[c.shard.Index]; !there && (found == nil || found.kept == 0 && g.kept > 0) {
			found = g
		}
	}
	return found
}

// admit gives a stream its place, one that is kept for it or else a free one.
// mu is held.
func (a *admission) admit(p *place) {
	again := p.been
	p.has, p.been = true, true
	a.taken++
	a.hosts[p.host]++
	if p.shard.Of <= 1 {
		return
	}
	g := a.missing(p.caller)
	switch {
	case g == nil:
		g = a.begin(p.caller, again)
	case g.kept > 0:
		g.kept--
		a.kept--
	}
	g.shards[p.shard.Index] = struct{}{}
	p.gang = g
}

// begin begins a gang, and keeps places for the shards to come: but not again, for
// one that was parked, since they have been in too. mu is held.
func (a *admission) begin(c caller, again bool) *gang {
	key := gangKey{c.plan, c.shard.Of}
	g := &gang{shards: map[int]struct{}{}, over: again}
	if !again {
		g.kept = min(c.shard.Of-1, (a.limit-a.taken-a.kept+1)/2)
	}
	a.kept += g.kept
	g.lapse = time.AfterFunc(gathering, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lapse(g)
		a.settle()
	})
	a.gangs[key] = append(a.gangs[key], g)
	return g
}

// lapse ends a gathering, and frees the places that are kept. mu is held.
func (a *admission) lapse(g *gang) {
	a.kept -= g.kept
	g.kept, g.over = 0, true
}

// leave gives the place back, or gives up waiting for it. It may be called more
// than once.
func (p *place) leave() {
	a := p.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	if !p.has {
		a.unqueue(p)
		return
	}
	p.has = false
	a.taken--
	if a.hosts[p.host]--; a.hosts[p.host] == 0 {
		delete(a.hosts, p.host)
	}
	if g := p.gang; g != nil {
		p.gang = nil
		delete(g.shards, p.shard.Index)
		if len(g.shards) == 0 {
			a.disband(gangKey{p.plan, p.shard.Of}, g)
		}
	}
	a.settle()
}

// disband forgets a gang without shards. mu is held.
func (a *admission) disband(key gangKey, g *gang) {
	g.lapse.Stop()
	a.lapse(g)
	a.gangs[key] = slices.DeleteFunc(a.gangs[key], func(o *gang) bool { return o == g })
	if len(a.gangs[key]) == 0 {
		delete(a.gangs, key)
	}
}

// wanted says whether a stream has a place that somebody who waits could have.
func (a *admission) wanted(of *place) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return of.has && slices.ContainsFunc(a.waiting, func(p *place) bool { return p.host == of.host || a.hosts[p.host] < a.share })
}

// waits is how many wait.
func (a *admission) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}
