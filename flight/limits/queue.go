// Package limits shares a limited number of places among clients, by one rule.
//
// A client is a subject or a host. No client has more than its share of the places. A free place goes to the client that has the
// fewest, then to the one whose calls have cost the least time of late, then to the one whose last turn is longest ago. The
// claims of one client have their places in order of arrival. If too many claims wait, the last one of the client with most of
// them is refused.
package limits

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Options are the limits of a queue.
type Options struct {
	Places  int  // 0: no limit, and nothing is counted
	Percent int  // of the places that one client may have, but at least one place
	Local   bool // the client "", which is all Unix domain sockets, may have all places
	// Claims and Bytes bound the claims that wait, and what they hold meanwhile. One claim may wait whatever it holds.
	Claims int
	Bytes  int64
	// Full returns the error of a claim that is refused because the queue is full. It is called under the lock of the queue.
	Full func(Counts) error
	// Costly counts the time for which a client has places against it.
	Costly bool
	Clock  func() time.Time
}

// Queue is places, and the claims that wait for them. It is safe for concurrent use.
//
// Its invariants are:
//   - no more places are taken or kept than there are, except for one claim that needs more than there are at present;
//   - no client has more than its share, including what is kept in its name;
//   - no claim waits while its client has less than its share and a place is free, except behind one that needs several places.
type Queue struct {
	options Options
	share   int

	mu       sync.Mutex
	most     int // places that may be taken or kept at present
	taken    int
	kept     int // of all Kept
	clients  map[string]*client
	waiting  []*Claim // in order of arrival
	bytes    int64    // of waiting
	turn     int64    // counts the places that were given, and the clients that came
	yielding int      // claims whose holders give their places up for those that wait
	closed   error    // why claims that are not firm do not wait any more
	queued   chan struct{}
}

// NewQueue returns a queue whose places are free.
func NewQueue(options Options) *Queue {
	return &Queue{
		options: options, share: shareOf(options.Places, options.Percent), most: options.Places,
		clients: map[string]*client{}, queued: make(chan struct{}),
	}
}

// shareOf returns how many places one client may have, given a percentage: at least one.
func shareOf(places, percent int) int { return max(1, places*percent/100) }

// Counts is how many places there are, and how they are used.
type Counts struct {
	Places, Share        int
	Most                 int // of the places that may be taken or kept at present
	Taken, Kept, Waiting int
	Bytes                int64 // of the claims that wait
}

// Counts returns how the places are used.
func (q *Queue) Counts() (now Counts) {
	q.Look(func() { now = q.Current() })
	return now
}

// Current is Counts within Look or Change.
func (q *Queue) Current() Counts {
	return Counts{Places: q.options.Places, Share: q.share, Most: q.most, Taken: q.taken, Kept: q.kept, Waiting: len(q.waiting), Bytes: q.bytes}
}

// Held returns how many places a client has, including those that are kept in its name. It is called within Look or Change.
func (q *Queue) Held(name string) int {
	if c := q.clients[name]; c != nil {
		return c.held
	}
	return 0
}

// Free returns how many places are neither taken nor kept. It is negative if there are fewer than before. It is called within
// Look or Change.
func (q *Queue) Free() int { return q.most - q.taken - q.kept }

// Limit changes how many of the places may be taken or kept at present. It is called within Change.
func (q *Queue) Limit(most int) { q.most = min(most, q.options.Places) }

// Look calls a function that looks at claims and places, and changes nothing of them.
func (q *Queue) Look(look func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	look()
}

// Change calls a function that changes what claims have or need, and gives places to those that can have them then.
func (q *Queue) Change(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	q.grant()
}

// Enter waits until a claim has a place; one that has it keeps it. If it has none after some time, late returns for how much
// longer it may wait, or else why it fails.
func (q *Queue) Enter(ctx context.Context, c *Claim, patience time.Duration, late func() (more time.Duration, err error)) error {
	if q.options.Places == 0 || !q.arrive(c) {
		return c.err
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case <-c.settled:
			return c.err
		case <-ctx.Done():
			return q.abandon(c, context.Cause(ctx))
		case <-timeout.C:
			more, err := late()
			if more <= 0 {
				return q.abandon(c, err)
			}
			timeout.Reset(more)
		}
	}
}

// arrive gives a claim a place, or refuses it, or adds it to those that wait: then it returns true.
func (q *Queue) arrive(c *Claim) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.has {
		return false
	}
	c.queue, c.client, c.err, c.settled = q, q.of(c.Client), nil, make(chan struct{})
	q.waiting = append(q.waiting, c)
	q.bytes += c.Bytes
	q.grant()
	q.refuse()
	if !q.waits(c) {
		return false
	}
	close(q.queued)
	q.queued = make(chan struct{})
	return true
}

// waits reports whether a claim waits. q.mu is held.
func (q *Queue) waits(c *Claim) bool { return slices.Contains(q.waiting, c) }

// Close refuses the claims that wait, and those that would from now on, except for firm ones.
func (q *Queue) Close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = why
	q.refuse()
	q.grant()
}

// refuse refuses all claims if the queue is closed, and otherwise as many as are too many. q.mu is held.
func (q *Queue) refuse() {
	for c := q.excess(); c != nil; c = q.excess() {
		q.unqueue(c)
		if c.err = q.closed; c.err == nil {
			c.err = q.options.Full(q.Current())
		}
		close(c.settled)
	}
}

// excess returns the claim that is refused next: the last one of the client that has most of them, or of the bytes; nil if no
// claim is refused. q.mu is held.
func (q *Queue) excess() *Claim {
	if q.closed == nil && len(q.waiting) <= q.options.Claims && q.bytes <= q.options.Bytes {
		return nil
	}
	claims, bytes := map[*client]int64{}, map[*client]int64{}
	bounded := 0
	for _, c := range q.waiting {
		bytes[c.client] += c.Bytes
		if !c.Firm {
			bounded++
			claims[c.client]++
		}
	}
	switch {
	case bounded == 0:
		return nil
	case q.closed != nil:
	case q.bytes > q.options.Bytes && bounded > 1:
		claims = bytes
	case bounded <= q.options.Claims:
		return nil
	}
	var last *Claim
	for _, c := range q.waiting {
		if !c.Firm && (last == nil || claims[c.client] >= claims[last.client]) {
			last = c
		}
	}
	return last
}

// grant gives places to claims while there are any. q.mu is held.
func (q *Queue) grant() {
	for {
		c, terms := q.next()
		if c == nil {
			return
		}
		q.unqueue(c)
		q.take(c, terms)
		close(c.settled)
	}
}

// next returns the claim that has the next place; nil if none can have one. q.mu is held.
func (q *Queue) next() (*Claim, Terms) {
	var first *Claim
	var best Terms
	if q.Free() <= 0 && q.kept == 0 && q.taken > 0 {
		return nil, best
	}
	now := q.options.Clock()
	for _, c := range q.waiting {
		terms := c.terms()
		if terms.Never || q.exceeds(c.client, terms) {
			continue
		}
		if terms.Of.Places() >= terms.Places {
			return c, terms
		}
		c.client.age(now)
		if first == nil || terms.First && !best.First || terms.First == best.First && c.client.before(first.client) {
			first, best = c, terms
		}
	}
	if first != nil && best.Places > q.Free()+best.Of.Places() && q.taken+q.kept > 0 {
		return nil, Terms{} // it needs several places, which the claims behind it leave to it
	}
	return first, best
}

// exceeds reports whether a client would have more than its share with the places of a claim. q.mu is held.
func (q *Queue) exceeds(c *client, terms Terms) bool {
	if q.options.Local && c.name == "" {
		return false
	}
	places := terms.Places
	if terms.Of != nil && terms.Of.client == c { // they count already
		places -= terms.Of.Places()
	}
	return places > 0 && c.held+places > q.share
}

// take gives a claim its place. q.mu is held.
func (q *Queue) take(c *Claim, terms Terms) {
	terms.Of.use(min(terms.Places, terms.Of.Places()))
	q.turn++
	q.taken++
	c.client.held++
	c.client.turn = q.turn
	c.has, c.began = true, q.options.Clock()
	if c.Special != nil {
		c.Special.Granted(terms)
	}
}

// unqueue removes a claim from those that wait. q.mu is held.
func (q *Queue) unqueue(c *Claim) {
	q.waiting = slices.DeleteFunc(q.waiting, func(o *Claim) bool { return o == c })
	q.bytes -= c.Bytes
}

// abandon ends the wait of a claim, unless it has got its place or was refused just now.
func (q *Queue) abandon(c *Claim, why error) error {
	q.Change(func() {
		if q.waits(c) {
			q.unqueue(c)
			c.err = why
		}
	})
	return c.err
}

// Queued returns a channel that is closed when the next claim begins to wait.
func (q *Queue) Queued() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued
}

// Yield reports whether the holder of a claim should give its place up for another one that waits and could have it. No more
// claims yield than wait. If the holder keeps its place, it calls Stay.
func (q *Queue) Yield(c *Claim) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.has || c.yields || q.couldHave(c) <= q.yielding {
		return false
	}
	c.yields = true
	q.yielding++
	return true
}

// Stay undoes Yield. It may be called more than once.
func (q *Queue) Stay(c *Claim) { q.Look(func() { q.stay(c) }) }

func (q *Queue) stay(c *Claim) {
	if c.yields {
		c.yields = false
		q.yielding--
	}
}

// couldHave returns how many claims wait that could have the place of another one. q.mu is held.
func (q *Queue) couldHave(of *Claim) int {
	could := 0
	for _, c := range q.waiting {
		if c.client == of.client || !q.exceeds(c.client, c.terms()) {
			could++
		}
	}
	return could
}
