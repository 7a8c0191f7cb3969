package limits

import "time"

// Claim is a claim to one place of a queue. Its owner enters it, and leaves when it needs the place no more.
type Claim struct {
	Client  string
	Bytes   int64   // that it holds while it waits
	Firm    bool    // a full queue does not refuse it
	Special Special // nil: it needs one place, and has no priority

	queue   *Queue // nil: it has not entered
	settled chan struct{}
	err     error // why it was refused; valid once settled is closed

	// Guarded by queue.mu.
	client *client
	has    bool
	began  time.Time // when it got its place
	yields bool      // see Yield
}

// Special is a claim with terms of its own. Its methods are called under the lock of the queue.
type Special interface {
	// Terms returns what the claim needs at present.
	Terms() Terms
	// Granted is called when the claim has got its place on some terms.
	Granted(Terms)
}

// Terms is what a claim needs.
type Terms struct {
	Places int   // that must be free, of which it takes one
	Of     *Kept // places that are kept for it, among others; nil: none
	First  bool  // it goes before claims without priority
	Never  bool  // it cannot have a place at present
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

// Return is Leave within Change.
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

// Kept is places that are kept for claims to come. A nil *Kept has none.
type Kept struct {
	queue  *Queue
	client *client // whose share they count against; nil: none
	places int
	over   bool
	timer  *time.Timer
}

// Keep keeps places for a time, of the share of a claim's client if one is given, which has its place. It is called within Change.
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

// Over reports whether the time is over, or Release was called. It is called within Look or Change.
func (k *Kept) Over() bool { return k == nil || k.over }

// Release frees the places. It is called within Change, and may be called more than once.
func (k *Kept) Release() {
	k.over = true
	k.timer.Stop()
	k.use(k.places)
}

// use stops keeping some places.
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
