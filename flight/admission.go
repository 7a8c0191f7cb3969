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
//     siblings have places, before others; then to the host that has fewest; then
//     in order of arrival.
//
// Trainers' ranks wait for each other, so that half of a job's shards are worth
// nothing: the first shard of a plan keeps free places for its siblings.
type admission struct {
	limit    int             // places; 0: any number, and nothing is counted
	share    int             // places that one host may have
	closing  <-chan struct{} // closed when nobody new comes in any more; nil: never
	crowded  func()          // called when somebody begins to wait; nil: nothing
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
	lapse  *time.Timer      // takes what is kept
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
	if p.crowded != nil {
		p.crowded()
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
	if g := p.missing(p.caller); g != nil && g.kept > 0 && p.hosts[p.host] < p.share {
		p.admit(p)
		return nil, nil, nil
	}
	if waiting := len(p.waiting); !p.been && waiting >= queueFor*p.limit {
		e := fault.New(fault.Exhausted, "%d streams wait for a place already, %d have one (max_streams)", waiting, p.taken)
		e.RetryAfter = placePatience
		return nil, nil, e.WithRemedy("try again later, ask another server, or raise the limit")
	}
	p.got = make(chan struct{})
	p.waiting = append(p.waiting, p)
	p.settle()
	if p.has {
		return nil, nil, nil
	}
	if !p.been {
		closing = p.closing
	}
	return p.got, closing, nil
}

// noneCame says why.
func (p *place) noneCame() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var e *fault.Error
	if own := p.hosts[p.host]; own >= p.share {
		e = fault.New(fault.Exhausted, "no place came within %s: this host has %d streams open, its share of the %d that this server takes (max_streams, max_peer_share)",
			p.patience, own, p.limit)
	} else {
		e = fault.New(fault.Exhausted, "no place came within %s: %d streams are open, of the %d that this server takes (max_streams)", p.patience, p.taken, p.limit)
	}
	e.RetryAfter = time.Second
	return e.WithRemedy("try again, ask another server, or raise the limit")
}

// settle gives places as long as there are any for those who wait. mu is held.
func (a *admission) settle() {
	for a.taken+a.kept < a.limit {
		p := a.next()
		if p == nil {
			return
		}
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
		has := a.hosts[p.host]
		if has >= a.share {
			continue
		}
		if p.been || a.missing(p.caller) != nil {
			has = -1
		}
		if first == nil || has < fewest {
			first, fewest = p, has
		}
	}
	return first
}

func (a *admission) unqueue(p *place) {
	a.waiting = slices.DeleteFunc(a.waiting, func(o *place) bool { return o == p })
}

// missing finds the gang that a shard is missing in; nil if there is none. mu is
// held.
func (a *admission) missing(c caller) *gang {
	for _, g := range a.gangs[gangKey{c.plan, c.shard.Of}] {
		if _, there := g.shards[c.shard.Index]; !there {
			return g
		}
	}
	return nil
}

// admit gives a stream its place, one that is kept for it or else a free one.
// mu is held.
func (a *admission) admit(p *place) {
	p.has, p.been = true, true
	a.taken++
	a.hosts[p.host]++
	if p.shard.Of <= 1 {
		return
	}
	g := a.missing(p.caller)
	switch {
	case g == nil:
		g = a.begin(p.caller)
	case g.kept > 0:
		g.kept--
		a.kept--
	}
	g.shards[p.shard.Index] = struct{}{}
	p.gang = g
}

// begin begins a gang, and keeps free places for the shards to come. mu is held.
func (a *admission) begin(c caller) *gang {
	key := gangKey{c.plan, c.shard.Of}
	g := &gang{shards: map[int]struct{}{}, kept: min(c.shard.Of-1, a.limit-a.taken-a.kept)}
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

// lapse frees the places that a gang keeps. mu is held.
func (a *admission) lapse(g *gang) {
	a.kept -= g.kept
	g.kept = 0
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

// wanted says whether somebody waits who could have a host's place.
func (a *admission) wanted(host string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.waiting, func(p *place) bool { return p.host == host || a.hosts[p.host] < a.share })
}

// waits is how many wait.
func (a *admission) waits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}
