package limits

import "time"

// Claim is a claim to one place of a queue. Its owner passes it to Queue.Enter, and calls Leave
// when it no longer needs the place.
type Claim struct {
	Client  string
	Bytes   int64   // how many bytes the owner holds in memory while the claim waits
	Firm    bool    // the claim is not refused when the queue is full or closed
	Special Special // nil: the claim needs one place, and has no priority

	queue   *Queue // nil: not passed to Enter yet
	settled chan struct{}
	err     error // the reason for a refusal; valid once settled is closed

	// Guarded by queue.mu.
	client *client
	has    bool
	began  time.Time // when the claim got its place
	yields bool      // see Yield
}

// Special determines the terms of a claim that has a priority or needs several places. Its methods
// are called with the queue locked.
type Special interface {
	// Terms returns what the claim needs at present.
	Terms() Terms
	// Granted is called when the claim has got its place. It receives the terms that applied.
	Granted(Terms)
}

// Terms are the conditions under which a claim gets a place.
type Terms struct {
	Places int   // how many places must be free, although the claim takes only one of them
	Of     *Kept // reserved places that count as free for this claim; nil: no reserved places do
	First  bool  // the claim has priority over claims without First
	Never  bool  // the claim cannot have a place at present
}

func (c *Claim) terms() Terms {
	if c.Special == nil {
		return Terms{Places: 1}
	}
	return c.Special.Terms()
}

// Has reports whether the claim has its place. It is called within Look or Change.
func (c *Claim) Has() bool { return c.has }

// Leave gives the claim's place back to the queue. It may be called more than once.
func (c *Claim) Leave() {
	if c.queue != nil {
		c.queue.Change(c.Return)
	}
}

// Return does the same as Leave, for a caller that runs within Change.
func (c *Claim) Return() {
	if !c.has {
		return
	}
	q := c.queue
	c.has = false
	q.taken--
	c.client.held--
	q.stay(c)
	if q.options.Costly {
		c.client.age(q.options.Clock())
		c.client.used += c.client.at.Sub(c.began)
	}
}

// Kept is a reservation of places for later claims. A nil *Kept has no places.
type Kept struct {
	queue  *Queue
	client *client // the client whose share the places count against; nil: they count against no share
	places int
	over   bool
	timer  *time.Timer
}

// Keep reserves places until limit has passed or Release is called. If a claim is given, it must
// have its place, and the reserved places count against the share of its client. Keep is called
// within Change.
func (q *Queue) Keep(places int, of *Claim, limit time.Duration) *Kept {
	k := &Kept{queue: q, places: places}
	if of != nil {
		k.client = of.client
	}
	k.count(places)
	k.timer = time.AfterFunc(limit, func() { q.Change(k.Release) })
	return k
}

// Places returns how many places are still reserved. It is called within Look or Change.
func (k *Kept) Places() int {
	if k == nil {
		return 0
	}
	return k.places
}

// Over reports whether the reservation has ended, because its time limit has passed or Release was
// called. It is called within Look or Change.
func (k *Kept) Over() bool { return k == nil || k.over }

// Release ends the reservation and frees its places. It is called within Change, and may be called
// more than once.
func (k *Kept) Release() {
	k.over = true
	k.timer.Stop()
	k.use(k.places)
}

// use removes a number of places from the reservation.
func (k *Kept) use(places int) {
	if k != nil {
		k.places -= places
		k.count(-places)
	}
}

func (k *Kept) count(places int) {
	k.queue.kept += places
	if k.client != nil {
		k.client.held += places
	}
}
