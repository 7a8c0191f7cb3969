package flight

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

const (
	// stalledAfter is how long a stream must have stood still before what it
	// holds may be taken from it for others.
	stalledAfter = time.Second
	// transitPatience is how long a stream whose client reads waits until others'
	// batches are out of its way.
	transitPatience = 30 * time.Second
)

// transit is the account of batches on their way: handed to gRPC, and not yet
// written to their connections. gRPC keeps what a client does not read for as
// long as its connection lives. So when the account is full, the stream that
// stands still longest loses its connection, as nothing else frees what it
// holds; its client goes on with its cursor. It always holds that
//   - the bytes are those of the leases of all passages;
//   - a lease ends once: with its last part, or with its connection.
type transit struct {
	limit int64 // bytes; 0: none
	clock func() time.Time

	mu       sync.Mutex
	bytes    int64
	leaving  int64 // of bytes: those whose connections were closed
	passages map[*passage]struct{}
	freed    chan struct{} // closed when bytes are freed; then there is another
}

func newTransit(limit int64, clock func() time.Time) *transit {
	return &transit{limit: limit, clock: clock, passages: map[*passage]struct{}{}, freed: make(chan struct{})}
}

// passage is one stream's part of the account.
type passage struct {
	*transit
	connection *connection
	end        func(error)  // ends the stream with a cause
	moved      atomic.Int64 // when the connection last took something, in nanoseconds of Unix time

	// Under mu.
	leases map[*lease]struct{}
	bytes  int64
	cut    bool // its connection was closed
	over   bool // its stream has ended
}

// enter opens a stream's part. The caller leaves when its stream has ended.
func (t *transit) enter(c *connection, end func(error)) *passage {
	p := &passage{transit: t, connection: c, end: end, leases: map[*lease]struct{}{}}
	p.move()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passages[p] = struct{}{}
	return p
}

// leave ends the part when its batches have arrived, or are lost.
func (p *passage) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.forget()
}

// forget drops a part that nothing follows from any more. mu is held.
func (p *passage) forget() {
	if p.over && len(p.leases) == 0 {
		delete(p.passages, p)
	}
}

// move notes that the connection took something.
func (p *passage) move() { p.moved.Store(p.clock().UnixNano()) }

// still is for how long the connection has taken nothing.
func (p *passage) still() time.Duration {
	return p.clock().Sub(time.Unix(0, p.moved.Load()))
}

// admit waits until a batch may be handed to gRPC. A stream whose own client is
// the slowest waits for it; one whose client reads is not held up by others for
// long.
func (p *passage) admit(ctx context.Context, l *lease) error {
	patience := time.NewTimer(transitPatience)
	defer patience.Stop()
	for {
		wait, freed, cut := p.tryAdmit(l)
		if freed == nil {
			return nil
		}
		for _, cut := range cut {
			cut.lose(fault.New(fault.Unavailable, "the client took nothing for %s, while others waited for the memory of its batches", cut.still().Round(time.Millisecond)).
				WithRemedy("go on with the cursor of the last batch; read faster, or ask for smaller batches"))
		}
		retry := time.NewTimer(wait)
		select {
		case <-freed:
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return context.Cause(ctx)
		case <-patience.C:
			if !p.slowest() {
				retry.Stop()
				e := fault.New(fault.Exhausted, "batches of other streams fill the memory of those on their way, %d bytes", p.limit)
				e.RetryAfter = transitPatience
				return e.WithRemedy("try again later, ask another server, or raise the server's memory budget")
			}
			patience.Reset(transitPatience)
		}
		retry.Stop()
	}
}

// tryAdmit takes a batch in, if it may pass: then there is no channel. Else it
// says when to try again, at the latest, and which streams are to lose their
// connection first.
func (p *passage) tryAdmit(l *lease) (wait time.Duration, freed <-chan struct{}, cut []*passage) {
	t := p.transit
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit == 0 || t.bytes == 0 || t.bytes+l.bytes <= t.limit {
		if p.bytes == 0 {
			p.move()
		}
		p.leases[l] = struct{}{}
		l.lent()
		if p.cut {
			t.leaving += l.bytes
		}
		p.bytes += l.bytes
		t.bytes += l.bytes
		return 0, nil, nil
	}
	victim := t.slowestOf()
	if victim == nil || victim == p || t.bytes-t.leaving+l.bytes <= t.limit {
		return stalledAfter, t.freed, nil
	}
	if still := victim.still(); still < stalledAfter {
		return stalledAfter - still, t.freed, nil
	}
	for other := range t.passages {
		if other.connection == victim.connection && !other.cut {
			other.cut = true
			t.leaving += other.bytes
			cut = append(cut, other)
		}
	}
	return stalledAfter, t.freed, cut
}

// slowestOf returns the part that moved longest ago, of those that hold
// something and can be made to give it up. mu is held.
func (t *transit) slowestOf() *passage {
	var slowest *passage
	for p := range t.passages {
		if p.bytes == 0 || p.cut || p.connection == nil || p.connection.conn == nil {
			continue
		}
		if slowest == nil || p.moved.Load() < slowest.moved.Load() {
			slowest = p
		}
	}
	return slowest
}

// slowest says whether no other stream's client is slower.
func (p *passage) slowest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slowestOf() == p
}

// lose ends the stream and closes its connection.
func (p *passage) lose(why error) {
	p.end(endedByUs{why})
	p.connection.cut()
}

// done takes a lease off that has ended.
func (p *passage) done(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.leases[l]; !there {
		return // it was not handed over
	}
	delete(p.leases, l)
	p.bytes -= l.bytes
	p.transit.bytes -= l.bytes
	if p.cut {
		p.leaving -= l.bytes
	}
	p.forget()
	close(p.freed)
	p.freed = make(chan struct{})
}

// stuck says of all batches of a passage that the client does not take them.
func (p *passage) stuck() {
	p.mu.Lock()
	leases := slices.Collect(maps.Keys(p.leases))
	p.mu.Unlock()
	for _, l := range leases {
		l.stuck()
	}
}

// connectionEnded ends the leases of a connection that gRPC is done with.
func (t *transit) connectionEnded(c *connection) {
	if c == nil {
		return
	}
	var lost []*lease
	t.mu.Lock()
	for p := range t.passages {
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

// onTheWay is the bytes of all batches on their way.
func (t *transit) onTheWay() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}
