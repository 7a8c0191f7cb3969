// Package limits shares a limited number of places among clients. All queues follow the same rule.
//
// A client is a subject or a host. No client has more than its share of the places. A free place
// goes to the client that has the fewest places. Among equals, it goes to the client that has used
// the least time recently, if the queue counts time, and then to the client whose last turn is the
// longest ago. Claims of the same client get places in order of arrival. If too many claims wait,
// the queue refuses the latest claim of the client that has the most waiting claims. If the waiting
// claims hold too many bytes, it refuses the latest claim of the client whose claims hold the most
// bytes. A Special claim may have priority.
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
	Percent int  // the share of one client, in percent of Places; it is at least one place
	Local   bool // the client "" may have all places; it stands for all connections on Unix domain sockets
	// Claims and Bytes limit how many claims wait, and how many bytes they hold while they wait. A single claim may exceed Bytes.
	Claims int
	Bytes  int64
	// Full returns the error of a claim that is refused because the queue is full. It is called under the lock of the queue.
	Full func(Counts) error
	// If Costly is true, the queue counts how long clients hold places. Among clients with equally
	// many places, the one that recently held places for less time goes first.
	Costly bool
	Clock  func() time.Time
}

// Queue has a number of places, and the claims that wait for a place. It is safe for concurrent
// use.
//
// Its invariants are:
//   - when the queue gives a place, at most Counts.Most places are taken or reserved afterwards, unless one claim alone needs more
//     places than that;
//   - no client has more than its share, counting the places that are reserved in its name. The client "" may have more if Local
//     is set;
//   - no claim waits for a free place that it could have within its client's share, unless a claim that needs several places waits
//     before it.
type Queue struct {
	options Options
	share   int

	mu       sync.Mutex
	most     int // how many places may be taken or reserved at present
	taken    int
	kept     int // the sum of the places of all Kept
	clients  map[string]*client
	waiting  []*Claim      // in order of arrival
	bytes    int64         // the bytes of the waiting claims
	turn     int64         // number of places given and clients added so far; it orders turns
	yielding int           // number of claims whose holders are giving up their places
	closed   error         // the error of claims that would wait and are not firm; nil: open
	queued   chan struct{} // closed when the next claim begins to wait
}

// NewQueue returns a queue whose places are all free.
func NewQueue(options Options) *Queue {
	return &Queue{
		options: options, share: shareOf(options.Places, options.Percent), most: options.Places,
		clients: map[string]*client{}, queued: make(chan struct{}),
	}
}

// shareOf returns how many places one client may have, given a percentage: at least one.
func shareOf(places, percent int) int { return max(1, places*percent/100) }

// Counts describes how many places there are, and how they are used.
type Counts struct {
	Places, Share        int
	Most                 int // how many places may be taken or kept at present
	Taken, Kept, Waiting int
	Bytes                int64 // the bytes of the waiting claims
}

// Counts returns how the places are used.
func (q *Queue) Counts() (now Counts) {
	q.Look(func() { now = q.Current() })
	return now
}

// Current returns the same as Counts, to a caller that runs within Look or Change.
func (q *Queue) Current() Counts {
	return Counts{Places: q.options.Places, Share: q.share, Most: q.most, Taken: q.taken, Kept: q.kept, Waiting: len(q.waiting), Bytes: q.bytes}
}

// Held returns how many places a client has, including places that are reserved in its name. It is
// called within Look or Change.
func (q *Queue) Held(name string) int {
	if c := q.clients[name]; c != nil {
		return c.held
	}
	return 0
}

// Free returns how many places are neither taken nor reserved. It is negative if Limit has set a
// limit below the number of places in use. It is called within Look or Change.
func (q *Queue) Free() int { return q.most - q.taken - q.kept }

// Limit sets how many of the places may be taken or reserved from now on. It is called within
// Change.
func (q *Queue) Limit(most int) { q.most = min(most, q.options.Places) }

// Look calls a function that reads the state of claims and places but does not change it.
func (q *Queue) Look(look func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	look()
}

// Change calls a function that changes the state of claims and places. Change then gives the free
// places to waiting claims that can have them.
func (q *Queue) Change(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	q.grant()
}

// Enter waits until a claim has a place. It returns at once if the claim already has one. If the
// claim still waits after the time patience, Enter calls late. The function late returns how much
// longer the claim may wait, or the error that Enter returns because the claim may not wait any
// longer.
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

// Try gives a claim a place if it can have one without waiting, and reports whether it has one.
func (q *Queue) Try(c *Claim) bool {
	if q.options.Places == 0 {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.has {
		return true
	}
	q.add(c)
	q.grant()
	if q.waits(c) {
		q.unqueue(c)
	}
	return c.has
}

// add adds a claim to the waiting claims. q.mu is held.
func (q *Queue) add(c *Claim) {
	c.queue, c.client, c.err, c.settled = q, q.of(c.Client), nil, make(chan struct{})
	q.waiting = append(q.waiting, c)
	q.bytes += c.Bytes
}

// arrive gives a claim a place, refuses it, or makes it wait. It reports whether the claim waits.
func (q *Queue) arrive(c *Claim) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.has {
		return false
	}
	q.add(c)
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

// Close refuses all claims that wait, and all later claims that would have to wait, except firm ones.
func (q *Queue) Close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = why
	q.refuse()
	q.grant()
}

// refuse refuses the claims in excess of the limits, or every claim that is not firm if the queue is closed. q.mu is held.
func (q *Queue) refuse() {
	for c := q.excess(); c != nil; c = q.excess() {
		q.unqueue(c)
		if c.err = q.closed; c.err == nil {
			c.err = q.options.Full(q.Current())
		}
		close(c.settled)
	}
}

// excess returns the next claim to refuse, or nil if no claim must be refused. If there are too
// many bytes, it chooses the client whose waiting claims hold the most bytes, and otherwise the
// client that has the most waiting claims. It returns the latest claim of that client. q.mu is
// held.
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

// grant gives free places to waiting claims until no claim can have one. q.mu is held.
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

// next returns the claim that gets the next place, and its terms, or nil if no claim can have one. q.mu is held.
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
		return nil, Terms{} // the claim that is next needs several places: other claims must not take them while it waits
	}
	return first, best
}

// exceeds reports whether a client would have more than its share if it also had the places that a
// claim needs. q.mu is held.
func (q *Queue) exceeds(c *client, terms Terms) bool {
	if q.options.Local && c.name == "" {
		return false
	}
	places := terms.Places
	if terms.Of != nil && terms.Of.client == c { // its reserved places already count as held
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

// unqueue removes a claim from the waiting claims. q.mu is held.
func (q *Queue) unqueue(c *Claim) {
	q.waiting = slices.DeleteFunc(q.waiting, func(o *Claim) bool { return o == c })
	q.bytes -= c.Bytes
}

// abandon ends the wait of a claim, unless the claim has just got its place or has just been refused.
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

// Yield reports whether the holder of claim c should give up its place, because a waiting claim
// could have that place. Yield returns true to no more holders than there are such waiting claims.
// If the holder keeps its place after all, it calls Stay.
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

// Stay keeps the holder's place although Yield returned true. Stay may be
// called more than once.
func (q *Queue) Stay(c *Claim) { q.Look(func() { q.stay(c) }) }

func (q *Queue) stay(c *Claim) {
	if c.yields {
		c.yields = false
		q.yielding--
	}
}

// couldHave returns how many waiting claims could have the place that a given claim has now. q.mu
// is held.
func (q *Queue) couldHave(of *Claim) int {
	could := 0
	for _, c := range q.waiting {
		if c.client == of.client || !q.exceeds(c.client, c.terms()) {
			could++
		}
	}
	return could
}
