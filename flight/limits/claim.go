package limits

import "time"

// Claim is a claim to one place of a queue. Its owner passes it to Queue.Enter, and calls Leave
// when it no longer needs the place.
type Claim struct {
	Client  string
	Bytes   int64   // the bytes that the owner holds while the claim waits
	Firm    bool    // a full queue does not refuse it
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
	Places int   // how many places must be free; the claim takes one of them
	Of     *Kept // kept places that count as free for the claim; nil: none
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

// Leave returns the place of a claim. It may be called more than once.
func (c *Claim) Leave() {
	if c.queue != nil {
		c.queue.Change(c.Return)
	}
}

// Return is like Leave. It is called within Change.
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

// Kept is a number of places that are reserved for later claims. A nil *Kept has no places.
type Kept struct {
	queue  *Queue
	client *client // the places count against its share; nil: against no share
	places int
	over   bool
	timer  *time.Timer
}

// Keep reserves places until limit has passed or Release is called. If of is not nil, the places
// count against the share of its client; of must have its place. Keep is called within Change.
func (q *Queue) Keep(places int, of *Claim, limit time.Duration) *Kept {
	k := &Kept{queue: q, places: places}
	if of != nil {
		k.client = of.client
	}
	k.count(places)
	k.timer = time.AfterFunc(limit, func() { q.Change(k.Release) })
	return k
}

// Places returns how many places are still kept. It is called within Look or Change.
func (k *Kept) Places() int {
	if k == nil {
		return 0
	}
	return k.places
}

// Over reports whether the time limit has passed or Release was called. It is called within Look or
// Change.
func (k *Kept) Over() bool { return k == nil || k.over }

// Release frees the places. It is called within Change, and may be called more than once.
func (k *Kept) Release() {
	k.over = true
	k.timer.Stop()
	k.use(k.places)
}

// use frees some of the places.
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
