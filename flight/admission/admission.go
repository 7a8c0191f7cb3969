// Package admission gives the slots of a server to streams, and takes them from streams that lack memory.
package admission

import (
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/flight/limits"
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

// Slots assigns slots to streams, by the rule of package limits. Its invariants, besides those of the queue:
//   - After a stream was set back for lack of memory, no more streams get slots than had slots at that moment. While memory is
//     plentiful, the number rises one by one.
//   - The first stream of a mix gets a slot only together with slots for all streams of the mix.
//   - A stream that resumes after it was parked, and a shard whose gang gathers, go before others.
//
// The ranks of a job wait for each other, so a job cannot run with some of its shards: the first
// shard of a plan reserves slots for the other shards for a while. It reserves at most half of the
// free slots, because the other shards may never come. For the streams of a mix, see newMix.
//
// A mix that is next in the queue, and for which too few slots are free, blocks the streams behind
// it. It blocks them no longer than it may wait itself, and it blocks no more slots than its
// streams could take one by one.
type Slots struct {
	*limits.Queue
	clock func() time.Time

	// Guarded by the lock of the queue.
	changed time.Time // when the number of streams that may be open last changed
	left    time.Time // when a stream last left
	turns   int64     // how often a stream has left, or Relax has let other streams try
	gangs   map[gangKey][]*group
	mixes   map[mixKey]*group
}

// Stream identifies a stream.
type Stream struct {
	Client string // a subject or a host
	Plan   string
	Shard  dataset.Shard
	Mix    Mix
}

// gangKey identifies the shards of one job. Jobs that read the same plan in the same number of
// shards have the same gangKey, so that their shards may join each other's gangs; each gang has
// enough slots nevertheless.
type gangKey struct {
	plan string
	of   int
}

// group is a set of streams that have slots at the same time: the shards of a gang, or the streams
// of a mix.
type group struct {
	of      int                // the number of streams once all have come
	streams map[*Slot]struct{} // that have slots; never empty
	kept    *limits.Kept       // for streams that have not come
}

// leave removes a stream from a group, and reports whether it was the last one. A nil group has no
// streams.
func (g *group) leave(p *Slot) bool {
	if g == nil {
		return false
	}
	delete(g.streams, p)
	if len(g.streams) > 0 {
		return false
	}
	g.kept.Release()
	return true
}

// Slot is the slot of one stream, or the stream's claim to a slot. Once the stream has had a slot,
// its claim is firm: it can resume after it was parked or set back. The goroutine of the stream
// calls Enter, and Release when the stream ends; parking releases the slot on its behalf.
type Slot struct {
	admission *Slots
	Claim     limits.Claim
	key       gangKey
	shard     int
	mix       mixKey // zero: the stream belongs to no mix
	streams   int    // of its mix

	// Guarded by the lock of the queue.
	gang  *group // nil if the plan has one shard
	mixed *group // nil if it belongs to no mix

	// lacks belongs to the stream, which changes it while it does not wait; after a setBack, it is guarded by the lock of the queue.
	lacks lack
}

// New returns Slots with the given number of slots, of which one client may have percent.
func New(slots, percent int, clock func() time.Time) *Slots {
	return &Slots{
		Queue: limits.NewQueue(limits.Options{Places: slots, Percent: percent, Claims: queuePerSlot * slots, Full: noSlot, Clock: clock}),
		clock: clock, gangs: map[gangKey][]*group{}, mixes: map[mixKey]*group{},
	}
}

// noSlot returns the error of a stream for which there is no room in the queue.
func noSlot(now limits.Counts) error {
	e := fault.New(fault.Exhausted, "no slot is free: %s already waiting, and %s open (max_streams)", are(now.Waiting), are(now.Taken))
	e.RetryAfter = maxWait
	return e.WithRemedy("try again later, use another server, or raise the limit")
}

// Shutdown lets no more streams wait, except for those that resume.
func (a *Slots) Shutdown() {
	a.Close(fault.New(fault.Unavailable, "the server is shutting down").WithRemedy("use another server, or this one after its restart"))
}

// Of returns the claim of a stream, which has a slot after Enter.
func (a *Slots) Of(c Stream) *Slot {
	p := &Slot{admission: a, key: gangKey{c.Plan, c.Shard.Of}, shard: c.Shard.Index}
	p.Claim = limits.Claim{Client: c.Client, Special: p}
	if c.Mix.Streams > 1 {
		p.mix, p.streams = mixKey{c.Client, c.Mix.ID}, c.Mix.Streams
	}
	return p
}

// Enter waits until the stream has a slot, if it has none.
func (p *Slot) Enter(ctx context.Context) error {
	a, has, now := p.admission, false, limits.Counts{}
	a.Look(func() { has, now = p.Claim.Has(), a.Current() })
	if has || now.Places == 0 {
		return nil
	}
	if p.streams > now.Share {
		return p.neverFits(now.Share)
	}
	cause, wait := waits.Slot, maxWait
	if p.lacks.err != nil {
		cause, wait = waits.Memory, p.lacks.until.Sub(a.clock())
	}
	defer waits.Begin(ctx, cause)()
	return a.Enter(ctx, &p.Claim, wait, p.late)
}

// Try gives the stream a slot if one is free, and reports whether the stream has one.
func (p *Slot) Try() bool { return p.admission.Try(&p.Claim) }

// late returns how much longer a stream may wait, or an error if it has waited for too long.
func (p *Slot) late() (more time.Duration, err error) {
	p.admission.Look(func() {
		if more = p.admission.moreTime(p); more <= 0 {
			err = p.timedOut()
		}
	})
	return more, err
}

// are returns a number of streams as the subject of a sentence.
func are(streams int) string {
	if streams == 1 {
		return "1 stream is"
	}
	return fault.Count(streams, "stream") + " are"
}

// timedOut returns the error of a stream that has waited for too long. The lock is held.
func (p *Slot) timedOut() error {
	if p.lacks.err != nil {
		return p.lacks.err
	}
	a, now := p.admission, p.admission.Current()
	var e *fault.Error
	remedy := "try again, use another server, or raise the limit"
	switch own := a.Held(p.Claim.Client); {
	case own+a.needs(p) > now.Share:
		e = fault.New(fault.Exhausted, "no slot became free within %s: this client has %s open, its share of the %d that this server allows (max_streams, max_peer_share)",
			maxWait, fault.Count(own, "stream"), now.Places)
	case now.Most < now.Places:
		e = fault.New(fault.Exhausted, "no slot became free within %s: %s open, as many as the memory budget carries", maxWait, are(now.Taken))
		remedy = "try again, use another server, or raise the server's memory budget"
	default:
		e = fault.New(fault.Exhausted, "no slot became free within %s: %s open, of the %d that this server allows (max_streams)", maxWait, are(now.Taken), now.Places)
	}
	e.RetryAfter = time.Second
	return e.WithRemedy("%s", remedy)
}

// Terms implements limits.Special.
func (p *Slot) Terms() limits.Terms {
	a := p.admission
	terms := limits.Terms{Places: a.needs(p), First: p.Claim.Firm, Never: !a.mayTry(p)}
	if m := a.mixes[p.mix]; m != nil {
		if !p.Claim.Firm {
			terms.Of = m.kept
		}
		terms.First = terms.First || len(m.streams)+m.kept.Places() < m.of // the stream came late, or follows a stream of the mix that has ended
	} else if g := a.gangWithout(p); g != nil {
		terms.Of = g.kept
		terms.First = terms.First || !g.kept.Over()
	}
	return terms
}

// gangWithout returns a gang that lacks the shard of p, preferably one that reserves a slot for it.
// It returns nil if there is no such gang. The lock is held.
func (a *Slots) gangWithout(p *Slot) *group {
	var found *group
	for _, g := range a.gangs[p.key] {
		there := false
		for o := range g.streams {
			there = there || o.shard == p.shard
		}
		if !there && (found == nil || found.kept.Places() == 0 && g.kept.Places() > 0) {
			found = g
		}
	}
	return found
}

// Granted implements limits.Special. Only the first stream of a mix belongs to a gang.
func (p *Slot) Granted(terms limits.Terms) {
	a, again := p.admission, p.Claim.Firm
	p.Claim.Firm = true
	if m := a.mixes[p.mix]; m != nil {
		p.mixed = m
		m.streams[p] = struct{}{}
		return
	}
	if terms.Places > 1 {
		a.newMix(p)
	}
	if p.key.of <= 1 {
		return
	}
	i := slices.IndexFunc(a.gangs[p.key], func(g *group) bool { return g.kept == terms.Of })
	if i < 0 {
		a.newGang(p, terms.Places, again)
		return
	}
	p.gang = a.gangs[p.key][i]
	p.gang.streams[p] = struct{}{}
}

// newGang starts a gang, and reserves slots for the shards to come, each of which needs as many as
// the first. It reserves none for a shard that resumes, because the other shards of its plan have
// been admitted before. The lock is held.
func (a *Slots) newGang(p *Slot, needs int, again bool) {
	keep := needs * min(p.key.of-1, max(0, a.Free()+1)/2/needs)
	if again {
		keep = 0
	}
	p.gang = &group{of: p.key.of, streams: map[*Slot]struct{}{p: {}}, kept: a.Keep(keep, nil, gathering)}
	if again {
		p.gang.kept.Release()
	}
	a.gangs[p.key] = append(a.gangs[p.key], p.gang)
}

// Release returns the slot. It may be called more than once.
func (p *Slot) Release() {
	a := p.admission
	a.Change(func() {
		if p.Claim.Has() {
			p.leave()
			a.turns++
			a.left = a.clock()
		}
	})
}

// leave returns the slot. The lock is held.
func (p *Slot) leave() {
	a := p.admission
	p.Claim.Return()
	if p.mixed.leave(p) {
		delete(a.mixes, p.mix)
	}
	if p.gang.leave(p) {
		a.gangs[p.key] = slices.DeleteFunc(a.gangs[p.key], func(g *group) bool { return g == p.gang })
		if len(a.gangs[p.key]) == 0 {
			delete(a.gangs, p.key)
		}
	}
	p.mixed, p.gang = nil, nil
}
