package limits

import (
	"cmp"
	"maps"
	"math"
	"time"
)

const (
	// forgetHalf is the half-life of the time for which a client has held places: after forgetHalf,
	// only half of that time still counts.
	forgetHalf = 30 * time.Second
	// usedUnit is the resolution of used time: smaller differences do not count.
	usedUnit = time.Second
	// maxKnown bounds the number of clients in the queue. When it is reached, the queue
	// removes the clients that have neither places nor waiting claims.
	maxKnown = 4096
)

// client is the state of one client in a queue.
type client struct {
	name string
	held int           // places that the client has, including places that are reserved in its name
	used time.Duration // how long the client has held places; earlier time counts less, by the half-life forgetHalf
	at   time.Time     // when used was computed
	turn int64         // Queue.turn when the client was added or last got a place
}

// before reports whether client c gets the next free place rather than client o.
func (c *client) before(o *client) bool {
	return cmp.Or(cmp.Compare(c.held, o.held), cmp.Compare(c.used/usedUnit, o.used/usedUnit), cmp.Compare(c.turn, o.turn)) < 0
}

// of returns the client with a name, and adds it if it is new. q.mu is held.
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

// forgetIdle removes the clients that have neither places nor waiting claims, if the queue
// has too many clients. q.mu is held.
func (q *Queue) forgetIdle() {
	if len(q.clients) < maxKnown {
		return
	}
	maps.DeleteFunc(q.clients, func(_ string, c *client) bool { return c.held == 0 })
	for _, c := range q.waiting {
		q.clients[c.Client] = c.client
	}
}

// age reduces the used time by the decay between c.at and now. The lock of the client's queue is
// held.
func (c *client) age(now time.Time) {
	if c.used > 0 {
		c.used = time.Duration(float64(c.used) * math.Exp2(-now.Sub(c.at).Seconds()/forgetHalf.Seconds()))
	}
	c.at = now
}
