package flight

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/waits"
)

const (
	// stalledAfter is how long a client must take nothing before its stream can lose its
	// memory or its connection to others.
	stalledAfter = time.Second
	// maxInflightWait is how long a stream whose client reads waits for the batches of
	// others to leave.
	maxInflightWait = 30 * time.Second
)

// inflightBatches counts the memory of batches that were handed to gRPC and not yet written
// to their connections. gRPC keeps what a client does not read for as long as the connection
// lives. So when the limit is reached, the stream whose client has taken nothing for longest
// loses its connection: nothing else frees its memory. Its client can resume from its
// cursor. The invariants are:
//   - bytes is the sum of the memory of batches that have leases, each reservation once;
//   - a lease ends once: with its last part, or with its connection.
type inflightBatches struct {
	limit int64 // bytes; 0: unlimited
	clock func() time.Time

	mu      sync.Mutex
	bytes   int64
	leaving int64                   // of bytes: those whose connections were closed
	memory  map[any]*memoryInflight // by batch.Reserved.ID
	streams map[*streamInflight]struct{}
	freed   chan struct{} // closed and replaced when bytes are freed
}

func newInflightBatches(limit int64, clock func() time.Time) *inflightBatches {
	return &inflightBatches{limit: limit, clock: clock, memory: map[any]*memoryInflight{}, streams: map[*streamInflight]struct{}{}, freed: make(chan struct{})}
}

// memoryInflight is a reservation of batches in flight, to one client or to several.
type memoryInflight struct {
	bytes  int64
	leases int
	cut    int // of leases: those of streams whose connections were closed
}

// leaving returns the bytes that will be free when the closed connections have ended.
func (m memoryInflight) leaving() int64 {
	if m.leases > 0 && m.cut == m.leases {
		return m.bytes
	}
	return 0
}

// count adds leases of a batch, of which some are of streams whose connections were closed.
// mu is held.
func (t *inflightBatches) count(l *batchLease, leases, cut int) {
	for _, one := range l.reserved {
		m := t.memory[one.ID]
		if m == nil {
			m = &memoryInflight{bytes: one.Bytes}
			t.memory[one.ID] = m
			t.bytes += m.bytes
		}
		before := m.leaving()
		m.leases, m.cut = m.leases+leases, m.cut+cut
		t.leaving += m.leaving() - before
		if m.leases == 0 {
			delete(t.memory, one.ID)
			t.bytes -= m.bytes
		}
	}
}

// more returns the bytes of a batch that are not yet in flight to other clients. mu is held.
func (t *inflightBatches) more(l *batchLease) int64 {
	more := int64(0)
	for _, one := range l.reserved {
		if t.memory[one.ID] == nil {
			more += one.Bytes
		}
	}
	return more
}

// streamInflight is the batches of one stream that are in flight.
type streamInflight struct {
	all        *inflightBatches
	connection *connection
	end        func(error)  // ends the stream with a cause
	moved      atomic.Int64 // when the connection last took something, in Unix nanoseconds

	// Under all.mu.
	leases map[*batchLease]struct{}
	bytes  int64
	cut    bool // its connection was closed
	ended  bool // its stream has ended
}

// enter adds a stream, which leaves when it has ended.
func (t *inflightBatches) enter(c *connection, end func(error)) *streamInflight {
	p := &streamInflight{all: t, connection: c, end: end, leases: map[*batchLease]struct{}{}}
	p.move()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams[p] = struct{}{}
	return p
}

// Release removes the stream once its last batch is written or lost. It may be called more than
// once.
func (p *streamInflight) Release() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.ended = true
	p.all.forget(p)
}

// forget removes a stream that has ended and has no batch in flight. mu is held.
func (t *inflightBatches) forget(p *streamInflight) {
	if p.ended && len(p.leases) == 0 {
		delete(t.streams, p)
	}
}

// move notes that the connection took something.
func (p *streamInflight) move() { p.moved.Store(p.all.clock().UnixNano()) }

// still returns for how long the connection has taken nothing.
func (p *streamInflight) still() time.Duration {
	return p.all.clock().Sub(time.Unix(0, p.moved.Load()))
}

// admit waits until a batch may be handed to gRPC. The stream with the slowest client waits
// for that client as long as it takes. Any other stream fails after maxInflightWait.
func (p *streamInflight) admit(ctx context.Context, l *batchLease) error {
	timeout := time.NewTimer(maxInflightWait)
	defer timeout.Stop()
	counted := false
	for {
		wait, freed, cut := p.tryAdmit(l)
		if freed == nil {
			return nil
		}
		if !counted && p.isSlowest() { // it waits for its own client, and not for the memory of others
			counted = true
			defer waits.Begin(ctx, waits.Trainer)()
		}
		for _, victim := range cut {
			victim.disconnect(fault.New(fault.Unavailable, "the client took nothing for %s, while others waited for the memory of its batches", victim.still().Round(time.Millisecond)).
				WithRemedy("resume from the cursor of the last batch; read faster, or ask for smaller batches"))
		}
		retry := time.NewTimer(wait)
		select {
		case <-freed:
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return context.Cause(ctx)
		case <-timeout.C:
			if !p.isSlowest() {
				retry.Stop()
				e := fault.New(fault.Exhausted, "batches of other streams fill the memory for batches in flight, %d bytes", p.all.limit)
				e.RetryAfter = maxInflightWait
				return e.WithRemedy("try again later, use another server, or raise the server's memory budget")
			}
			timeout.Reset(maxInflightWait)
		}
		retry.Stop()
	}
}

// tryAdmit admits a batch, if there is room: then freed is nil. Otherwise it returns how long
// to wait at most before the next attempt, and the streams to disconnect first.
func (p *streamInflight) tryAdmit(l *batchLease) (wait time.Duration, freed <-chan struct{}, cut []*streamInflight) {
	t := p.all
	t.mu.Lock()
	defer t.mu.Unlock()
	more := t.more(l)
	if t.limit == 0 || t.bytes == 0 || t.bytes+more <= t.limit {
		if p.bytes == 0 {
			p.move()
		}
		p.leases[l] = struct{}{}
		l.markInFlight()
		p.bytes += l.bytes
		t.count(l, 1, p.cutLeases(1))
		return 0, nil, nil
	}
	victim := t.slowest()
	if victim == nil || victim == p || t.bytes-t.leaving+more <= t.limit {
		return stalledAfter, t.freed, nil
	}
	if still := victim.still(); still < stalledAfter {
		return stalledAfter - still, t.freed, nil
	}
	for other := range t.streams {
		if other.connection == victim.connection && !other.cut {
			t.markCut(other)
			cut = append(cut, other)
		}
	}
	return stalledAfter, t.freed, cut
}

// markCut marks a stream whose connection is to be closed. mu is held.
func (t *inflightBatches) markCut(p *streamInflight) {
	p.cut = true
	for lease := range p.leases {
		t.count(lease, 0, 1)
	}
}

// stalled returns the streams whose clients have taken nothing for a time, and marks them as cut.
func (t *inflightBatches) stalled(after time.Duration) []*streamInflight {
	t.mu.Lock()
	defer t.mu.Unlock()
	var stalled []*streamInflight
	for p := range t.streams {
		if p.bytes > 0 && !p.cut && p.connection != nil && p.still() >= after {
			t.markCut(p)
			stalled = append(stalled, p)
		}
	}
	return stalled
}

// cutLeases returns how many of the stream's leases count as those of a closed connection: all
// or none.
func (p *streamInflight) cutLeases(leases int) int {
	if p.cut {
		return leases
	}
	return 0
}

// slowest returns the stream whose client has taken nothing for longest, of those that have
// batches in flight and can be disconnected. mu is held.
func (t *inflightBatches) slowest() *streamInflight {
	var slowest *streamInflight
	for p := range t.streams {
		if p.bytes == 0 || p.cut || p.connection == nil || p.connection.conn == nil {
			continue
		}
		if slowest == nil || p.moved.Load() < slowest.moved.Load() {
			slowest = p
		}
	}
	return slowest
}

// isSlowest reports whether no other stream has a slower client.
func (p *streamInflight) isSlowest() bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.all.slowest() == p
}

// disconnect ends the stream with a cause, and closes its connection.
func (p *streamInflight) disconnect(cause error) {
	p.end(endedByServer{cause})
	p.connection.cut()
}

// remove subtracts a lease that has ended.
func (p *streamInflight) remove(l *batchLease) {
	t := p.all
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := p.leases[l]; !there {
		return // it was never admitted
	}
	delete(p.leases, l)
	p.bytes -= l.bytes
	t.count(l, -1, p.cutLeases(-1))
	t.forget(p)
	close(t.freed)
	t.freed = make(chan struct{})
}

// markStalled marks all batches of the stream: its client does not take them.
func (p *streamInflight) markStalled() {
	p.all.mu.Lock()
	leases := slices.Collect(maps.Keys(p.leases))
	p.all.mu.Unlock()
	for _, l := range leases {
		l.markStalled()
	}
}

// connectionEnded ends the leases of a connection that gRPC no longer uses.
func (t *inflightBatches) connectionEnded(c *connection) {
	if c == nil {
		return
	}
	var lost []*batchLease
	t.mu.Lock()
	for p := range t.streams {
		if p.connection == c {
			for l := range p.leases {
				lost = append(lost, l)
			}
		}
	}
	t.mu.Unlock()
	for _, l := range lost {
		l.end()
	}
}

// total returns the bytes of all batches in flight.
func (t *inflightBatches) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}
