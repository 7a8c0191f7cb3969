// Package budget is the process-wide memory limit: staging rows, indexes and
// prefetched batches are all charged to it.
//
// A holder reserves memory before it allocates, and releases the reservation when the
// memory is freed; memory is charged to its holder, not to its producer. A holder that
// can free memory on demand registers with OnPressure, and is called when a reservation
// lacks room. A reservation that still does not fit fails with Exhausted and a remedy.
// A stream that needs the memory to make progress waits for it instead: see GrowWait.
// A nil *Budget is unlimited.
package budget

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// Budget counts reserved bytes against a limit. It is safe for concurrent use.
type Budget struct {
	limit int64
	share int64 // bytes that one peer may hold while other peers have streams; 0: no bound
	used  atomic.Int64
	peak  atomic.Int64
	lent  atomic.Int64 // part of used that is in flight: see MarkInFlight
	idle  atomic.Int64 // part of used that is given up when it is needed: see AddIdle

	pressed atomic.Bool // a reservation lacked room since the last Pressed

	mu    sync.Mutex
	frees []func(bytes int64) // of OnPressure
	spare []func(bytes int64) // of OnLack

	queue queue
}

// New makes a budget of limit bytes.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// SetPeerShare sets the percentage of the limit that the streams of one peer may hold
// while other peers have streams; the default is no bound. It must be called before the
// budget is used.
func (b *Budget) SetPeerShare(percent int) { b.share = b.limit / 100 * int64(percent) }

// Limit returns the limit in bytes, or -1 if there is none.
func (b *Budget) Limit() int64 {
	if b == nil {
		return -1
	}
	return b.limit
}

// Used returns the reserved bytes.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Peak returns the maximum of Used so far.
func (b *Budget) Peak() int64 {
	if b == nil {
		return 0
	}
	return b.peak.Load()
}

// OnPressure registers a function that frees memory on demand. It is called with the
// number of bytes that a reservation lacks, on the goroutine that reserves, and releases
// as much of its holder's reservations as it can. It must not reserve memory, and must
// be safe for concurrent use.
func (b *Budget) OnPressure(free func(bytes int64)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frees = append(b.frees, free)
}

// Pressed reports whether a reservation has lacked room since the last call of Pressed,
// or is waiting for room now. A reservation that exceeds its peer's share does not count.
func (b *Budget) Pressed() bool {
	if b == nil {
		return false
	}
	return b.pressed.Swap(false) || b.queue.length.Load() > 0 && b.queue.any(func(w *waiter) bool { return b.shares(w.into.peer, w.bytes) })
}

// Wanted reports whether a stream of the peer waits for its share.
func (b *Budget) Wanted(from string) bool {
	return b != nil && b.queue.length.Load() > 0 && b.queue.any(func(w *waiter) bool {
		return w.peer == b.queue.peers[from] && !b.shares(w.into.peer, w.bytes)
	})
}

// any reports whether a waiter matches.
func (q *queue) any(matches func(*waiter) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.waiting, matches)
}

// freed wakes waiters that fit now that memory was freed.
func (b *Budget) freed() {
	if b.queue.length.Load() > 0 {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		b.settle()
	}
}

// tryReserve adds n bytes to those in use if reserve bytes stay free then, and reports
// whether it did.
func (b *Budget) tryReserve(n, reserve int64) bool {
	for {
		used := b.used.Load()
		if n > 0 && used+n > b.limit-reserve {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			for peak := b.peak.Load(); used+n > peak && !b.peak.CompareAndSwap(peak, used+n); {
				peak = b.peak.Load()
			}
			return true
		}
	}
}

// Reserve makes a reservation of n bytes, or fails with Exhausted. Errors name its purpose, what.
// The caller releases it.
func (b *Budget) Reserve(what string, n int64) (*Reservation, error) {
	r := &Reservation{budget: b, what: what}
	if err := r.Grow(n); err != nil {
		return nil, err
	}
	return r, nil
}

// Reservation is the memory that one holder has reserved. It is safe for concurrent
// use. The zero value belongs to no budget and is unlimited.
type Reservation struct {
	budget   *Budget
	what     string
	peer     *peer // it counts against this peer's share; nil: no share
	keepFree int64 // bytes of the budget that must stay free
	held     atomic.Int64
	inFlight atomic.Int64 // part of held that is in flight: 0 or all
}

// Grow adds n bytes. If they do not fit it fails with Exhausted, and the reservation is
// unchanged.
func (r *Reservation) Grow(n int64) error {
	if b := r.budget; b != nil && !r.tryTake(n) {
		b.press(n + r.keepFree)
		if !r.tryTake(n) {
			return r.exhausted(n)
		}
		b.serveWaiters() // these may be bytes that were given up for a waiter
	}
	r.held.Add(n)
	return nil
}

func (r *Reservation) exhausted(n int64) *fault.Error {
	e := fault.New(fault.Exhausted, "%s needs %d bytes more, %d of the memory budget's %d are in use",
		r.what, n, r.budget.used.Load(), r.budget.limit)
	if !r.budget.shares(r.peer, n) {
		e = fault.New(fault.Exhausted, "%s needs %d bytes more, this client has %d of the memory budget's %d, and may have %d beside others (max_peer_share)",
			r.what, n, r.peer.held.Load(), r.budget.limit, r.budget.share)
	}
	if n <= r.budget.limit-r.keepFree && r.budget.othersHold() {
		e.RetryAfter = maxWait
		if r.budget.Streams() > 1 {
			e.Err = errCrowded
		}
	}
	return e.WithRemedy("raise the server's memory budget, ask for fewer columns or lanes, or write the staging table with more buckets")
}

// errCrowded is the cause of a reservation's failure while other streams were open.
var errCrowded = errors.New("other streams hold memory")

// Crowded reports whether an error came from a reservation that failed while other streams were
// open: it may succeed when they have released memory.
func Crowded(err error) bool { return errors.Is(err, errCrowded) }

// KeepFree lets the reservation grow only while the given bytes of the budget stay free.
// It is for a holder that has an alternative to memory, beside others that have none. It
// must be called before the reservation is used.
func (r *Reservation) KeepFree(bytes int64) { r.keepFree = bytes }

// Shrink releases n bytes of those held.
func (r *Reservation) Shrink(n int64) {
	held := r.held.Add(-n)
	invariant.Check(held >= 0, "%s releases more than it holds", r.what)
	r.releaseBytes(n)
}

// Split moves n of the held bytes into a new reservation, for memory that outlives the
// holder. The caller releases it.
func (r *Reservation) Split(n int64) *Reservation {
	held := r.held.Add(-n)
	invariant.Check(held >= 0, "%s splits off more than it holds", r.what)
	out := &Reservation{budget: r.budget, what: r.what, peer: r.peer}
	out.held.Store(n)
	return out
}

// Held returns the reserved bytes.
func (r *Reservation) Held() int64 { return r.held.Load() }

// Release releases all bytes. It is idempotent.
func (r *Reservation) Release() {
	if held := r.held.Swap(0); held != 0 {
		r.releaseBytes(held)
	}
}

// MarkInFlight marks the reservation as in flight: its memory, a batch that the network has,
// will be released without further action by any stream. While there is such memory,
// waiting streams are not deadlocked. The reservation no longer grows or shrinks.
func (r *Reservation) MarkInFlight() {
	if held := r.held.Load(); r.budget != nil && r.inFlight.CompareAndSwap(0, held) {
		r.budget.lent.Add(held)
	}
}

// MarkStalled ends the effect of MarkInFlight: the network does not accept the batch, so that its
// release may take long.
func (r *Reservation) MarkStalled() {
	if r.returned() {
		r.budget.changeQueue(func(*queue) {})
	}
}

// returned ends the effect of MarkInFlight, and reports whether there was one.
func (r *Reservation) returned() bool {
	lent := r.inFlight.Swap(0)
	if lent != 0 {
		r.budget.lent.Add(-lent)
	}
	return lent != 0
}

// releaseBytes subtracts n bytes from those of budget and peer.
func (r *Reservation) releaseBytes(n int64) {
	if r.peer != nil {
		r.peer.held.Add(-n)
	}
	if r.budget == nil {
		return
	}
	// In this order, settle never misses these bytes: it reads inFlight before used.
	r.budget.used.Add(-n)
	r.returned()
	r.budget.freed()
}
