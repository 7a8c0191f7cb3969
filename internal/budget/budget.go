// Package budget limits the memory of the process. Staging rows, indexes and prefetched batches are
// all charged to one Budget.
//
// A holder reserves memory before allocating it, and releases the reservation when the memory is
// freed. Memory is charged to its holder, not to its producer. A holder that can free memory on
// demand registers a function with OnPressure, which is called when a reservation lacks room. A
// reservation that still does not fit fails with Exhausted and a remedy. A stream that needs the
// memory to make progress waits for it instead; see GrowWait. A nil *Budget is unlimited.
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
	lent  atomic.Int64 // part of used that is in flight; see MarkInFlight
	idle  atomic.Int64 // part of used that is released when room is needed; see AddIdle

	pressed atomic.Bool // whether a reservation has lacked room since the last call of Pressed

	mu    sync.Mutex
	frees []func(bytes int64) // registered with OnPressure
	spare []func(bytes int64) // registered with OnLack

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

// OnPressure registers a function that frees memory on demand. The goroutine that reserves calls it
// with the number of bytes that a reservation lacks. The function releases as many of these bytes
// as it can. It must not reserve memory, and must be safe for concurrent use.
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

// freed is called after memory was freed. It grants room to the waiters that now fit.
func (b *Budget) freed() {
	if b.queue.length.Load() > 0 {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		b.settle()
	}
}

// tryReserve adds n bytes to the used bytes if at least reserve bytes then stay free. It reports
// whether it added them.
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

// Reserve makes a reservation of n bytes, or fails with Exhausted. what is the purpose of the
// memory, which errors name. The caller releases the reservation.
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
	peer     *peer // the peer whose share the bytes count against; nil: no share
	keepFree int64 // bytes of the budget that must stay free
	held     atomic.Int64
	inFlight atomic.Int64 // the bytes of held that are in flight: none or all
}

// Grow adds n bytes to the reservation. If they do not fit, it fails with Exhausted and leaves the
// reservation unchanged.
func (r *Reservation) Grow(n int64) error {
	if b := r.budget; b != nil && !r.tryTake(n) {
		b.press(n + r.keepFree)
		if !r.tryTake(n) {
			return r.exhausted(n)
		}
		b.serveWaiters() // the call of press may have freed bytes for which a waiter waits
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
// open. Such a reservation may succeed after they have released memory.
func Crowded(err error) bool { return errors.Is(err, errCrowded) }

// KeepFree lets the reservation grow only while the given number of bytes of the budget stays free.
// It is for a holder that can work without the memory, when other holders cannot. It must be called
// before the reservation is used.
func (r *Reservation) KeepFree(bytes int64) { r.keepFree = bytes }

// Shrink releases n of the held bytes.
func (r *Reservation) Shrink(n int64) {
	held := r.held.Add(-n)
	invariant.Check(held >= 0, "%s releases more than it holds", r.what)
	r.releaseBytes(n)
}

// Split moves n of the held bytes into a new reservation, for memory that outlives the holder. The
// caller releases the new reservation.
func (r *Reservation) Split(n int64) *Reservation {
	held := r.held.Add(-n)
	invariant.Check(held >= 0, "%s splits off more than it holds", r.what)
	out := &Reservation{budget: r.budget, what: r.what, peer: r.peer}
	out.held.Store(n)
	return out
}

// Held returns the reserved bytes.
func (r *Reservation) Held() int64 { return r.held.Load() }

// Release releases all bytes. It may be called more than once.
func (r *Reservation) Release() {
	if held := r.held.Swap(0); held != 0 {
		r.releaseBytes(held)
	}
}

// MarkInFlight marks the reservation as in flight: its memory is a batch that was passed to the
// network, and will be released without further action by any stream. While there is such memory,
// waiting streams are not deadlocked. The reservation must not grow or shrink afterward.
func (r *Reservation) MarkInFlight() {
	if held := r.held.Load(); r.budget != nil && r.inFlight.CompareAndSwap(0, held) {
		r.budget.lent.Add(held)
	}
}

// MarkStalled ends the effect of MarkInFlight. It is called if the client does not read the batch,
// so that its release may take long.
func (r *Reservation) MarkStalled() {
	if r.returned() {
		r.budget.changeQueue(func(*queue) {})
	}
}

// returned ends the effect of MarkInFlight, and reports whether the reservation was in flight.
func (r *Reservation) returned() bool {
	lent := r.inFlight.Swap(0)
	if lent != 0 {
		r.budget.lent.Add(-lent)
	}
	return lent != 0
}

// releaseBytes subtracts n bytes from the counts of the budget and the peer.
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
