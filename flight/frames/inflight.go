package frames

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
	// StalledAfter is how long a client must read nothing before its stream can lose its memory or
	// its connection in favor of other streams.
	StalledAfter = time.Second
	// maxInflightWait is how long a stream whose client reads waits for other streams to free
	// memory.
	maxInflightWait = 30 * time.Second
)

// Inflight counts the memory of batches that were handed to gRPC and not yet written to their
// connections. If a client does not read, gRPC keeps its batches as long as the connection is open.
// So when the limit is reached, the server closes the connection whose client has read nothing for
// the longest time. That client can resume from its cursor. The invariants are:
//   - bytes is the sum of the memory of batches that have leases, each reservation once;
//   - a lease ends once: with its last part, or with its connection.
type Inflight struct {
	// Limit is the most bytes in flight; 0: there is no limit. It does not change while there are streams.
	Limit int64

	clock func() time.Time

	mu      sync.Mutex
	bytes   int64
	leaving int64                   // the part of bytes whose connections were closed
	memory  map[any]*memoryInflight // by batch.Reserved.ID
	streams map[*StreamInflight]struct{}
	freed   chan struct{} // closed and replaced when bytes are freed
}

// NewInflight returns an Inflight with a limit in bytes; 0: there is no limit.
func NewInflight(limit int64, clock func() time.Time) *Inflight {
	return &Inflight{Limit: limit, clock: clock, memory: map[any]*memoryInflight{}, streams: map[*StreamInflight]struct{}{}, freed: make(chan struct{})}
}

// memoryInflight is a reservation of batches that are in flight to one or more clients.
type memoryInflight struct {
	bytes  int64
	leases int
	cut    int // the leases of streams whose connections were closed; part of leases
}

// leaving returns the bytes that will be free when the closed connections have ended.
func (m memoryInflight) leaving() int64 {
	if m.leases > 0 && m.cut == m.leases {
		return m.bytes
	}
	return 0
}

// count adds to the leases of a batch. cut is how many of them belong to streams whose connections
// were closed. mu is held.
func (t *Inflight) count(l *Lease, leases, cut int) {
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
func (t *Inflight) more(l *Lease) int64 {
	more := int64(0)
	for _, one := range l.reserved {
		if t.memory[one.ID] == nil {
			more += one.Bytes
		}
	}
	return more
}

// Client is the client of a stream.
type Client struct {
	Connection any    // identifies the connection, which streams may share; nil: unknown
	Cut        func() // closes the connection; nil: it cannot be closed
}

// StreamInflight is the batches of one stream that are in flight.
type StreamInflight struct {
	all    *Inflight
	client Client
	end    func(error)  // ends the stream with a cause
	moved  atomic.Int64 // when the connection last took bytes, in Unix nanoseconds

	// Under all.mu.
	leases map[*Lease]struct{}
	bytes  int64
	cut    bool // its connection was closed
	ended  bool // its stream has ended
}

// Enter adds a stream, which calls Release when it has ended. The function end ends the stream with
// a cause.
func (t *Inflight) Enter(c Client, end func(error)) *StreamInflight {
	p := &StreamInflight{all: t, client: c, end: end, leases: map[*Lease]struct{}{}}
	p.Move()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams[p] = struct{}{}
	return p
}

// Release removes the stream once its last batch is written or lost. It may be called more than
// once.
func (p *StreamInflight) Release() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	p.ended = true
	p.all.forget(p)
}

// forget removes a stream that has ended and has no batch in flight. mu is held.
func (t *Inflight) forget(p *StreamInflight) {
	if p.ended && len(p.leases) == 0 {
		delete(t.streams, p)
	}
}

// Move notes that the connection took bytes.
func (p *StreamInflight) Move() { p.moved.Store(p.all.clock().UnixNano()) }

// Moved returns when the connection last took bytes, in Unix nanoseconds.
func (p *StreamInflight) Moved() int64 { return p.moved.Load() }

// Still returns for how long the connection has taken nothing.
func (p *StreamInflight) Still() time.Duration {
	return p.all.clock().Sub(time.Unix(0, p.moved.Load()))
}

// Admit waits until a batch may be handed to gRPC. The stream with the slowest client waits without
// a time limit. Any other stream fails after maxInflightWait.
func (p *StreamInflight) Admit(ctx context.Context, l *Lease) error {
	timeout := time.NewTimer(maxInflightWait)
	defer timeout.Stop()
	counted := false
	for {
		wait, freed, cut := p.tryAdmit(l)
		if freed == nil {
			return nil
		}
		if !counted && p.isSlowest() { // the stream waits for its own client, not for the memory of other streams
			counted = true
			defer waits.Begin(ctx, waits.Trainer)()
		}
		for _, victim := range cut {
			victim.Disconnect(fault.New(fault.Unavailable, "the client took nothing for %s, while others waited for the memory of its batches", victim.Still().Round(time.Millisecond)).
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
				e := fault.New(fault.Exhausted, "batches of other streams fill the memory for batches in flight, %d bytes", p.all.Limit)
				e.RetryAfter = maxInflightWait
				return e.WithRemedy("try again later, use another server, or raise the server's memory budget")
			}
			timeout.Reset(maxInflightWait)
		}
		retry.Stop()
	}
}

// tryAdmit admits a batch if there is room; then freed is nil. Otherwise it returns the longest
// time to wait before the next attempt, a channel that is closed when memory is freed, and the
// streams to disconnect first.
func (p *StreamInflight) tryAdmit(l *Lease) (wait time.Duration, freed <-chan struct{}, cut []*StreamInflight) {
	t := p.all
	t.mu.Lock()
	defer t.mu.Unlock()
	more := t.more(l)
	if t.Limit == 0 || t.bytes == 0 || t.bytes+more <= t.Limit {
		if p.bytes == 0 {
			p.Move()
		}
		p.leases[l] = struct{}{}
		l.payload.MarkInFlight()
		p.bytes += l.bytes
		t.count(l, 1, p.cutLeases(1))
		return 0, nil, nil
	}
	victim := t.slowest()
	if victim == nil || victim == p || t.bytes-t.leaving+more <= t.Limit {
		return StalledAfter, t.freed, nil
	}
	if still := victim.Still(); still < StalledAfter {
		return StalledAfter - still, t.freed, nil
	}
	for other := range t.streams {
		if other.client.Connection == victim.client.Connection && !other.cut {
			t.markCut(other)
			cut = append(cut, other)
		}
	}
	return StalledAfter, t.freed, cut
}

// markCut marks a stream whose connection is to be closed. mu is held.
func (t *Inflight) markCut(p *StreamInflight) {
	p.cut = true
	for lease := range p.leases {
		t.count(lease, 0, 1)
	}
}

// Stalled returns the streams whose clients have taken nothing for a time, and marks them as cut.
func (t *Inflight) Stalled(after time.Duration) []*StreamInflight {
	t.mu.Lock()
	defer t.mu.Unlock()
	var stalled []*StreamInflight
	for p := range t.streams {
		if p.bytes > 0 && !p.cut && p.client.Connection != nil && p.Still() >= after {
			t.markCut(p)
			stalled = append(stalled, p)
		}
	}
	return stalled
}

// cutLeases returns leases if the stream's connection was closed, and 0 otherwise.
func (p *StreamInflight) cutLeases(leases int) int {
	if p.cut {
		return leases
	}
	return 0
}

// slowest returns the stream whose client has taken nothing for the longest time, among the streams
// that have batches in flight and can be disconnected. mu is held.
func (t *Inflight) slowest() *StreamInflight {
	var slowest *StreamInflight
	for p := range t.streams {
		if p.bytes == 0 || p.cut || p.client.Cut == nil {
			continue
		}
		if slowest == nil || p.moved.Load() < slowest.moved.Load() {
			slowest = p
		}
	}
	return slowest
}

// isSlowest reports whether no other stream has a slower client.
func (p *StreamInflight) isSlowest() bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.all.slowest() == p
}

// Disconnect ends the stream with a cause, and closes its connection.
func (p *StreamInflight) Disconnect(cause error) {
	p.end(cause)
	if p.client.Cut != nil {
		p.client.Cut()
	}
}

// remove subtracts a lease that has ended.
func (p *StreamInflight) remove(l *Lease) {
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

// MarkStalled marks all batches of the stream as stalled: the client does not read them.
func (p *StreamInflight) MarkStalled() {
	p.all.mu.Lock()
	leases := slices.Collect(maps.Keys(p.leases))
	p.all.mu.Unlock()
	for _, l := range leases {
		l.payload.MarkStalled()
	}
}

// ConnectionEnded ends the leases of a connection that gRPC no longer uses.
func (t *Inflight) ConnectionEnded(connection any) {
	var lost []*Lease
	t.mu.Lock()
	for p := range t.streams {
		if p.client.Connection == connection {
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

// Counts returns the number of streams, and the bytes of their batches in flight.
func (t *Inflight) Counts() (streams int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.streams), t.bytes
}
