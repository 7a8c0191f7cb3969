package budget

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/waits"
)

// maxWait is the longest time that a stream waits for memory. It matters only if other streams run
// without releasing memory. A stream whose client has stopped reading is parked after a second.
const maxWait = 30 * time.Second

// queue holds the open streams and their waiters.
type queue struct {
	length  atomic.Int64 // length of the field waiting
	several atomic.Bool  // whether more than one peer has open streams

	mu      sync.Mutex
	peers   map[string]*peer
	entered int64     // number of streams that have entered so far, which is the age of the stream that entered last
	open    int       // number of streams that have entered and not left
	blocked int       // number of open streams that have a waiting goroutine
	waiting []*waiter // by age of their streams, the oldest first
}

// stream is a stream that has entered a budget, or a prefetch for one.
type stream struct {
	budget  *Budget
	peer    *peer
	age     int64        // number of the stream in the order of entering: older streams have smaller numbers
	waits   int          // number of waiting goroutines of the stream
	of      *stream      // for a prefetch, its stream; nil: this is not a prefetch
	awaited bool         // whether the stream of a prefetch waits for the prefetch
	own     *waits.Waits // of the stream, or of the stream of a prefetch; nil: none
}

// waiter is a goroutine that waits to grow a reservation.
type waiter struct {
	*stream
	into  *Reservation
	bytes int64
	err   error         // valid once done is closed; nil: the bytes were reserved
	done  chan struct{} // closed at the end of the wait
}

// streamKey is the key of a context's stream.
type streamKey struct{}

// Enter registers a stream of a client's host (from), and returns a context for it. With this
// context or a derived one, GrowWait waits for memory, and ReserveFor counts against the host's
// share. The caller releases the Handle when the stream no longer holds memory. A nil *Budget
// registers nothing.
func (b *Budget) Enter(ctx context.Context, from string) (context.Context, *release.Handle) {
	if b == nil {
		return ctx, nil
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.entered++
	b.queue.open++
	s := &stream{budget: b, age: b.queue.entered, peer: b.queue.addStream(from), own: waits.Of(ctx)}
	return context.WithValue(ctx, streamKey{}, s), release.New(func() {
		b.changeQueue(func(q *queue) {
			q.open--
			q.removeStream(from)
		})
	})
}

// Streams returns the number of streams that have entered and not left.
func (b *Budget) Streams() int {
	if b == nil {
		return 0
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.open
}

// Waited reports whether a stream is waiting for memory.
func (b *Budget) Waited() bool { return b != nil && b.queue.length.Load() > 0 }

// NoWait returns a context with which GrowWait does not wait. It is for work that other streams may
// wait for.
func NoWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, (*stream)(nil))
}

// MarkBlocked marks the stream of ctx as waiting for another stream, until the Handle is released.
// A blocked stream does not free the memory that it holds, so other streams must not wait for it.
func MarkBlocked(ctx context.Context) *release.Handle {
	s, _ := ctx.Value(streamKey{}).(*stream)
	waiting := waits.Of(ctx)
	if s == nil && waiting == nil {
		return nil
	}
	if s != nil && s.of != nil && waiting == s.own { // the stream is doing other work; a prefetch with separate waits counts them
		waiting = nil
	}
	end := waiting.Begin(waits.Stream)
	if s == nil {
		return release.New(end)
	}
	s.budget.changeQueue(func(q *queue) { q.block(s) })
	return release.New(func() {
		end()
		q := &s.budget.queue
		q.mu.Lock()
		defer q.mu.Unlock()
		q.unblock(s)
	})
}

// GrowWait is like Grow, but waits for room if ctx comes from Enter. It fails with Exhausted if the
// whole budget is too small, if all streams wait, or after 30 seconds. If ctx ends, it fails with
// the cause of ctx.
//
// Streams cannot deadlock. If all open streams wait and no waiter fits, the wait of the youngest
// stream fails: that stream ends or continues with less memory, and the others proceed. Otherwise a
// stream that does not wait may release memory. The oldest stream gets room first.
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

// othersHold reports whether other streams or the network may release memory.
func (b *Budget) othersHold() bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.open > 1 || b.lent.Load() > 0
}

// Await waits until n bytes are free, as GrowWait does, and reserves nothing.
func (b *Budget) Await(ctx context.Context, what string, n int64) error {
	r, err := b.Reserve(what, 0)
	if err != nil {
		return err
	}
	defer r.Release()
	return r.GrowWait(ctx, n)
}

// wait waits for room for n bytes and takes it. The error is Exhausted or the cause of ctx.
func (r *Reservation) wait(ctx context.Context, s *stream, n int64) error {
	defer waits.Begin(ctx, waits.Memory)()
	b := r.budget
	none := fault.New(fault.Exhausted, "no memory became available within %s", maxWait)
	limited, cancel := context.WithTimeoutCause(ctx, maxWait, none)
	defer cancel()
	w := &waiter{stream: s, into: r, bytes: n, done: make(chan struct{})}
	b.changeQueue(func(q *queue) { q.add(w) })
	b.lack(n + r.keepFree) // frees memory that became idle since Grow failed; holders of memory that becomes idle later see the waiter
	select {
	case <-w.done:
		return w.err
	case <-limited.Done():
	}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	select {
	case <-w.done: // the wait ended at the same moment
		if w.err == nil {
			r.untake(n)
		}
	default:
		b.queue.finish(w, nil)
	}
	b.settle()
	return context.Cause(limited)
}

// add inserts a waiter after the waiters of older streams. q.mu is held.
func (q *queue) add(w *waiter) {
	at := slices.IndexFunc(q.waiting, func(o *waiter) bool { return o.age > w.age })
	if at < 0 {
		at = len(q.waiting)
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	q.length.Add(1)
	q.block(w.stream)
}

// block counts a waiting goroutine of a stream. q.mu is held.
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

// unblock undoes block. q.mu is held.
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

// finish ends a wait. q.mu is held.
func (q *queue) finish(w *waiter, err error) {
	q.waiting = slices.DeleteFunc(q.waiting, func(o *waiter) bool { return o == w })
	q.length.Add(-1)
	q.unblock(w.stream)
	w.err = err
	close(w.done)
}

// changeQueue changes the queue, which may let waiters proceed. If waiters can proceed only with
// idle memory, changeQueue makes its holders release it. The caller must not hold a lock that
// OnLack functions need.
func (b *Budget) changeQueue(change func(*queue)) {
	b.queue.mu.Lock()
	change(&b.queue)
	b.settle()
	b.queue.mu.Unlock()
	b.serveWaiters()
}

// settle grants room to the waiters that fit, the oldest first. It skips waiters whose peer has its
// full share. If all streams wait, it may grant room to a younger waiter; if no waiter fits, it
// fails the youngest, unless memory is in flight or idle. The same applies to the streams of one
// peer if all of them wait, the peer has its full share, and the rest of the budget is in use.
// b.queue.mu is held.
func (b *Budget) settle() {
	for {
		lent := b.lent.Load() + b.idle.Load() // read before used: see releaseBytes
		if !b.grant() && !b.exceed() && (lent != 0 || !b.fail()) {
			return
		}
	}
}

// exceed grants the oldest waiter of a peer more than the peer's share, if all streams of the peer
// wait and no older waiter waits for the room. It reports whether it did. b.queue.mu is held.
func (b *Budget) exceed() bool {
	q := &b.queue
	for _, w := range q.waiting {
		p := w.into.peer
		if b.shares(p, w.bytes) {
			return false // the room is kept for this waiter
		}
		if p.blocked == p.open && b.tryReserve(w.bytes, w.into.keepFree) {
			p.held.Add(w.bytes)
			q.finish(w, nil)
			return true
		}
	}
	return false
}

// grant grants room to one waiter, and reports whether one fits. b.queue.mu is held.
func (b *Budget) grant() bool {
	q := &b.queue
	for _, w := range q.waiting {
		if w.into.tryTake(w.bytes) {
			q.finish(w, nil)
			return true
		}
		if q.blocked < q.open && b.shares(w.into.peer, w.bytes) {
			return false // the next room is kept for this waiter
		}
	}
	return false
}

// fail ends the wait of the youngest deadlocked waiter with an error, and reports whether there was
// one. b.queue.mu is held.
func (b *Budget) fail() bool {
	q := &b.queue
	for _, w := range slices.Backward(q.waiting) {
		p := w.peer
		if q.blocked == q.open || p.blocked == p.open && !b.shares(w.into.peer, w.bytes) {
			q.finish(w, fault.New(fault.Exhausted, "every stream waits"))
			return true
		}
	}
	return false
}
