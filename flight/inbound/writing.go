package inbound

import (
	"sync/atomic"
	"time"
)

// blockedAfter is how long a write to a connection takes at least if it waits for the network: a write that finds room in the
// buffers of the operating system takes some tens of microseconds.
const blockedAfter = 500 * time.Microsecond

// blockedWrites measures how long writes to a connection wait for the network. Writes are made by one goroutine of the transport.
type blockedWrites struct {
	ticks   func() time.Time
	began   time.Time
	total   atomic.Int64
	current atomic.Int64 // when the write that runs began, in nanoseconds after began; 0: none runs
}

// since returns the time since the connection was accepted.
func (b *blockedWrites) since() time.Duration { return b.ticks().Sub(b.began) }

// begin begins a write. The caller calls end once.
func (b *blockedWrites) begin() (end func()) {
	at := max(1, int64(b.since()))
	b.current.Store(at)
	return func() {
		if took := int64(b.since()) - at; took >= int64(blockedAfter) {
			b.total.Add(took)
		}
		b.current.Store(0)
	}
}

// now returns for how long writes have waited so far, and whether one waits.
func (b *blockedWrites) now() (all time.Duration, waits bool) {
	all = time.Duration(b.total.Load())
	if at := b.current.Load(); at > 0 {
		if took := b.since() - time.Duration(at); took >= blockedAfter {
			return all + took, true
		}
	}
	return all, false
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	defer c.blocked.begin()()
	return c.Conn.Write(p)
}

// Blocked returns for how long writes to the connection have waited for the network so far, and whether one waits now.
func (c *Connection) Blocked() (all time.Duration, waits bool) {
	if of := c.counted(); of != nil {
		return of.blocked.now()
	}
	return 0, false
}
