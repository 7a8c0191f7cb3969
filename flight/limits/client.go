package limits

import (
	"cmp"
	"maps"
	"math"
	"time"
)

const (
	// forgetHalf is the time in which half of the time that a client has used is forgotten.
	forgetHalf = 30 * time.Second
	// usedUnit is how much time makes a difference: less counts as none.
	usedUnit = time.Second
	// maxKnown bounds the clients without places and claims whose use and last turn are remembered.
	maxKnown = 4096
)

// client is what a client has of a queue.
type client struct {
	name string
	held int           // places, including those that are kept in its name
	used time.Duration // for which it had places, less what is forgotten
	at   time.Time     // of used
	turn int64         // of the queue, when the client came or had its last place
}

// before reports whether a free place goes to a client before it goes to another one.
func (c *client) before(o *client) bool {
	return cmp.Or(cmp.Compare(c.held, o.held), cmp.Compare(c.used/usedUnit, o.used/usedUnit), cmp.Compare(c.turn, o.turn)) < 0
}

// of returns a client, which is remembered. q.mu is held.
func (q *Queue) of(name string) *client {
	c := q.clients[name]
	if c == nil {
		q.forgetIdle()
		q.turn++
		c = &client{name: name, at: q.options.Clock(), turn: q.turn}
		q.clients[name] = c
	}
	return c
}

// forgetIdle bounds the clients that are remembered. q.mu is held.
func (q *Queue) forgetIdle() {
	if len(q.clients) < maxKnown {
		return
	}
	maps.DeleteFunc(q.clients, func(_ string, c *client) bool { return c.held == 0 })
	for _, c := range q.waiting {
		q.clients[c.Client] = c.client
	}
}

// age forgets some of the time that a client has used. The lock of its queue is held.
func (c *client) age(now time.Time) {
	if c.used > 0 {
		c.used = time.Duration(float64(c.used) * math.Exp2(-now.Sub(c.at).Seconds()/forgetHalf.Seconds()))
	}
	c.at = now
}
