package budget

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
)

// patience is how long a stream waits for memory at most: for streams that run
// and give none back. Those whose clients have stopped reading do, after a second.
const patience = 30 * time.Second

// queue is the streams that may wait, and those that do.
type queue struct {
	length  atomic.Int64 // of waiting
	several atomic.Bool  // streams of more than one peer are open

	mu      sync.Mutex
	peers   map[string]*peer
	entered int64     // streams so far: the age of the next one
	open    int       // streams that have entered and not left
	blocked int       // open streams of which some goroutine waits
	waiting []*waiter // the oldest stream's first
}

// stream is one that has entered a budget, or what is done ahead for one.
type stream struct {
	budget  *Budget
	peer    *peer
	age     int64
	waits   int     // goroutines of it that wait
	of      *stream // what this is done ahead for; nil of a stream itself
	awaited bool    // of waits for this
}

// waiter is one goroutine that waits.
type waiter struct {
	*stream
	into  *Reservation
	bytes int64
	err   error         // why it did not get them, once done is closed
	done  chan struct{} // closed when it has got the bytes, or err
}

// streamKey is the key of a context's stream.
type streamKey struct{}

// Enter registers a stream of a client's host (from), and returns its context. With
// that context, or one derived from it, GrowWait waits for memory and ReserveFor
// counts against the host's share. The caller releases the Handle when the stream
// holds no memory any more. A nil *Budget has no streams.
func (b *Budget) Enter(ctx context.Context, from string) (context.Context, *release.Handle) {
	if b == nil {
		return ctx, nil
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.entered++
	b.queue.open++
	s := &stream{budget: b, age: b.queue.entered, peer: b.queue.join(from)}
	return context.WithValue(ctx, streamKey{}, s), release.New(func() {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		b.queue.open--
		b.queue.part(from)
		b.settle()
	})
}

// Streams returns how many streams have entered and not left.
func (b *Budget) Streams() int {
	if b == nil {
		return 0
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.open
}

// Waited says whether some stream waits for memory now.
func (b *Budget) Waited() bool { return b != nil && b.queue.length.Load() > 0 }

// NoWait returns a context with which nothing waits: for what others wait for.
func NoWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, (*stream)(nil))
}

// MarkBlocked marks the stream of ctx as waiting for another stream, until the Handle
// is released: meanwhile it does not free the memory that it holds, and other streams
// must not wait for that.
func MarkBlocked(ctx context.Context) *release.Handle {
	s, _ := ctx.Value(streamKey{}).(*stream)
	if s == nil {
		return nil
	}
	q := &s.budget.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.block(s)
	s.budget.settle()
	return release.New(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.unblock(s)
	})
}

// GrowWait is Grow that waits for room if ctx is of a stream that has entered
// the budget. It fails with Exhausted if the room cannot come: if there is less
// in the whole budget, or if every stream waits; and after patience. It fails
// with the cause of ctx when that ends.
//
// Waiting cannot lock up. When each stream that has entered waits, and none of
// them fits, the youngest fails: its stream ends, or does with less, and the
// others go on. As long as one does not wait, it may give memory back. Room goes
// to the oldest stream first.
func (r *Reservation) GrowWait(ctx context.Context, n int64) error {
	err := r.Grow(n)
	if err == nil {
		return nil
	}
	s, _ := ctx.Value(streamKey{}).(*stream)
	if s == nil || s.of != nil || s.budget != r.budget || n > r.budget.limit {
		return err
	}
	if err := r.wait(ctx, s, n); err != nil {
		if fault.KindOf(err) != fault.Exhausted {
			return err
		}
		return r.exhausted(n)
	}
	r.held.Add(n)
	return nil
}

// othersHold says whether memory may come back that the one that asks does not
// hold itself: of other streams, or of the network.
func (b *Budget) othersHold() bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.open > 1 || b.lent.Load() > 0
}

// Await waits until n bytes are free, as GrowWait does, and takes none.
func (b *Budget) Await(ctx context.Context, what string, n int64) error {
	r, err := b.Reserve(what, 0)
	if err != nil {
		return err
	}
	defer r.Release()
	return r.GrowWait(ctx, n)
}

// wait takes n bytes when there is room. Whether it fails for the budget's
// sake, the kind of the error says: Exhausted.
func (r *Reservation) wait(ctx context.Context, s *stream, n int64) error {
	b := r.budget
	none := fault.New(fault.Exhausted, "no room came within %s", patience)
	limited, cancel := context.WithTimeoutCause(ctx, patience, none)
	defer cancel()
	w := &waiter{stream: s, into: r, bytes: n, done: make(chan struct{})}
	b.queue.mu.Lock()
	b.queue.line(w)
	b.settle()
	b.queue.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-limited.Done():
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	select {
	case <-w.done: // at the same moment
		if w.err == nil {
			r.untake(n)
		}
	default:
		b.queue.leave(w, nil)
	}
	b.settle()
	return context.Cause(limited)
}

// line puts a waiter behind those of older streams. q.mu is held.
func (q *queue) line(w *waiter) {
	at := slices.IndexFunc(q.waiting, func(o *waiter) bool { return o.age > w.age })
	if at < 0 {
		at = len(q.waiting)
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	q.length.Add(1)
	q.block(w.stream)
}

// block counts a goroutine of a stream that waits. q.mu is held.
func (q *queue) block(s *stream) {
	s.waits++
	switch {
	case s.waits > 1:
	case s.of == nil:
		q.blocked++
		s.peer.blocked++
	case s.awaited:
		q.block(s.of)
	}
}

// unblock undoes block.
func (q *queue) unblock(s *stream) {
	s.waits--
	switch {
	case s.waits > 0:
	case s.of == nil:
		q.blocked--
		s.peer.blocked--
	case s.awaited:
		q.unblock(s.of)
	}
}

// leave ends the waiting of a waiter. q.mu is held.
func (q *queue) leave(w *waiter, err error) {
	q.waiting = slices.DeleteFunc(q.waiting, func(o *waiter) bool { return o == w })
	q.length.Add(-1)
	q.unblock(w.stream)
	w.err = err
	close(w.done)
}

// settle lets waiters go on that fit, the oldest first; those whose peer has its
// share are passed over. When every stream waits, a younger one may go first, and
// if none fits, the youngest fails, unless memory comes back by itself. So it is
// when every stream of a peer that has its share waits, and the rest of the budget
// is in use. b.queue.mu is held.
func (b *Budget) settle() {
	for {
		lent := b.lent.Load() // before the room is looked at: what comes back is free first
		if !b.grant() && !b.exceed() && (lent != 0 || !b.fail()) {
			return
		}
	}
}

// exceed lets the oldest waiter of a peer go on beyond the peer's share, and says
// whether one could: where all streams of the peer wait for it, and nobody else waits
// for the room. b.queue.mu is held.
func (b *Budget) exceed() bool {
	q := &b.queue
	for _, w := range q.waiting {
		p := w.into.peer
		if b.shares(p, w.bytes) {
			return false // it is for this one
		}
		if p.blocked == p.open && b.tryReserve(w.bytes, w.into.leaves) {
			p.held.Add(w.bytes)
			q.leave(w, nil)
			return true
		}
	}
	return false
}

// grant lets one waiter go on, and says whether one could. b.queue.mu is held.
func (b *Budget) grant() bool {
	q := &b.queue
	for _, w := range q.waiting {
		if w.into.tryTake(w.bytes) {
			q.leave(w, nil)
			return true
		}
		if q.blocked < q.open && b.shares(w.into.peer, w.bytes) {
			return false // it lacks room, and is to have the next
		}
	}
	return false
}

// fail ends the waiting of the youngest of those that wait for each other, and
// says whether there was one. b.queue.mu is held.
func (b *Budget) fail() bool {
	q := &b.queue
	for _, w := range slices.Backward(q.waiting) {
		p := w.peer
		if q.blocked == q.open || p.blocked == p.open && !b.shares(w.into.peer, w.bytes) {
			q.leave(w, fault.New(fault.Exhausted, "every stream waits"))
			return true
		}
	}
	return false
}
