// Package budget is the process-wide memory limit that every holder asks
// first: staging rows, indexes, prefetched batches.
//
// Who holds memory reserves it before it allocates, and releases it when the
// memory is gone: the holder pays, not the producer. Who holds memory that it
// can do without says so with OnPressure, and is asked first. What does not
// fit even then fails at once with kind Exhausted and the remedy, or, for a
// stream that cannot go on without it, waits until others have given memory
// back: see GrowWait. A nil *Budget is unlimited, so that pure code needs no
// configuration.
package budget

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// Budget counts reserved bytes against a limit. It is safe for concurrent use.
type Budget struct {
	limit int64
	share int64 // of the limit, that one peer may hold while others have streams; 0: all
	used  atomic.Int64
	peak  atomic.Int64
	lent  atomic.Int64 // of used: what comes back without any stream's doing

	lacked atomic.Bool // room, since Pressed was asked

	mu   sync.Mutex
	give []func(bytes int64)

	queue queue
}

// New makes a budget of limit bytes.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// SetPeerShare says which part of the limit, in percent, the streams of one peer
// may hold while others have streams too. It is called before the budget is used;
// without it, all.
func (b *Budget) SetPeerShare(percent int) { b.share = b.limit / 100 * int64(percent) }

// Limit returns the limit in bytes; -1 is unlimited.
func (b *Budget) Limit() int64 {
	if b == nil {
		return -1
	}
	return b.limit
}

// Used returns the bytes reserved now.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Peak returns the most bytes that were ever reserved at one time.
func (b *Budget) Peak() int64 {
	if b == nil {
		return 0
	}
	return b.peak.Load()
}

// OnPressure lets the budget ask for memory that a holder can do without: give
// is called with the bytes that a reservation lacks, on the goroutine that
// reserves, and gives back what it can of its own reservations. It must not
// reserve anything, and may be called by several at once.
func (b *Budget) OnPressure(give func(bytes int64)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give = append(b.give, give)
}

// Pressed says whether a reservation has lacked room since Pressed was asked
// last, or waits for it now. One that lacks its peer's share is none.
func (b *Budget) Pressed() bool {
	if b == nil {
		return false
	}
	return b.lacked.Swap(false) || b.queue.length.Load() > 0 && b.waitsFor(func(w *waiter) bool { return b.shares(w.into.peer, w.bytes) })
}

// Wanted says whether a stream of a peer waits for that peer's share.
func (b *Budget) Wanted(from string) bool {
	return b != nil && b.queue.length.Load() > 0 && b.waitsFor(func(w *waiter) bool {
		return w.peer == b.queue.peers[from] && !b.shares(w.into.peer, w.bytes)
	})
}

func (b *Budget) waitsFor(what func(*waiter) bool) bool {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return slices.ContainsFunc(b.queue.waiting, what)
}

// press asks the holders that can give memory for so many bytes.
func (b *Budget) press(bytes int64) {
	if bytes <= 0 {
		return // it is the share of a peer that is full
	}
	b.lacked.Store(true)
	b.mu.Lock()
	give := slices.Clone(b.give)
	b.mu.Unlock()
	for _, g := range give {
		g(bytes)
	}
}

// freed lets those go on that waited for bytes that are free now.
func (b *Budget) freed() {
	if b.queue.length.Load() > 0 {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		b.settle()
	}
}

// tryReserve adds n bytes to those in use if there is room, and so many bytes stay
// free.
func (b *Budget) tryReserve(n, leaves int64) bool {
	for {
		used := b.used.Load()
		if n > 0 && used+n > b.limit-leaves {
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

// Reserve opens a reservation of n bytes for what is named. It fails with
// Exhausted if the budget has no room for it. The caller releases it.
func (b *Budget) Reserve(what string, n int64) (*Reservation, error) {
	r := &Reservation{budget: b, what: what}
	if err := r.Grow(n); err != nil {
		return nil, err
	}
	return r, nil
}

// Reservation is a part of the budget that one holder has. It is safe for
// concurrent use. The zero value belongs to no budget and is unlimited.
type Reservation struct {
	budget *Budget
	what   string
	peer   *peer // whose share it counts against; nil: nobody's
	leaves int64 // bytes of the budget that must stay free beside it
	held   atomic.Int64
	lent   atomic.Int64 // of held; 0 or all
}

// Grow adds n bytes, or fails with Exhausted and leaves the reservation as it was.
func (r *Reservation) Grow(n int64) error {
	if b := r.budget; b != nil && !r.tryTake(n) {
		b.press(b.used.Load() + n + r.leaves - b.limit)
		if !r.tryTake(n) {
			return r.exhausted(n)
		}
	}
	r.held.Add(n)
	return nil
}

func (r *Reservation) exhausted(n int64) *fault.Error {
	e := fault.New(fault.Exhausted, "%s needs %d bytes more, %d of the memory budget's %d are in use",
		r.what, n, r.budget.used.Load(), r.budget.limit)
	if !r.budget.shares(r.peer, n) {
		e = fault.New(fault.Exhausted, "%s needs %d bytes more, this client's host has %d of the memory budget's %d, and may have %d beside others (max_peer_share)",
			r.what, n, r.peer.held.Load(), r.budget.limit, r.budget.share)
	}
	if n <= r.budget.limit-r.leaves && r.budget.othersHold() {
		e.RetryAfter = patience
	}
	return e.WithRemedy("raise the server's memory budget, ask for fewer columns or lanes, or write the staging table with more buckets")
}

// Leave lets the reservation grow only as long as so many bytes of the budget stay
// free: for a holder that can do with less memory, beside those that cannot. It is
// called before the reservation is used.
func (r *Reservation) Leave(bytes int64) { r.leaves = bytes }

// Shrink gives n bytes back, which must be held.
func (r *Reservation) Shrink(n int64) {
	held := r.held.Add(-n)
	invariant.Check(held >= 0, "%s gives back more than it holds", r.what)
	r.giveBack(n)
}

// Split moves n bytes, which must be held, into a reservation of their own: for
// what outlives the holder. Whoever has that releases it.
func (r *Reservation) Split(n int64) *Reservation {
	held := r.held.Add(-n)
	invariant.Check(held >= 0, "%s parts with more than it holds", r.what)
	out := &Reservation{budget: r.budget, what: r.what, peer: r.peer}
	out.held.Store(n)
	return out
}

// Held returns the bytes of this reservation.
func (r *Reservation) Held() int64 { return r.held.Load() }

// Release gives everything back. It may be called more than once.
func (r *Reservation) Release() {
	if held := r.held.Swap(0); held != 0 {
		r.giveBack(held)
	}
}

// Lend says that all of the reservation comes back by itself, without any
// stream's doing: a batch that the network has. While there is such memory,
// streams that wait are not at a standstill. The holder neither grows nor
// shrinks it any more.
func (r *Reservation) Lend() {
	if held := r.held.Load(); r.budget != nil && r.lent.CompareAndSwap(0, held) {
		r.budget.lent.Add(held)
	}
}

// Stuck says that what was lent does not come back soon: the network does not take
// it.
func (r *Reservation) Stuck() {
	if r.returned() {
		b := r.budget
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		b.settle()
	}
}

// returned ends the lending, and says whether there was any.
func (r *Reservation) returned() bool {
	lent := r.lent.Swap(0)
	if lent != 0 {
		r.budget.lent.Add(-lent)
	}
	return lent != 0
}

// giveBack takes n bytes off those of budget and peer.
func (r *Reservation) giveBack(n int64) {
	if r.peer != nil {
		r.peer.held.Add(-n)
	}
	if r.budget == nil {
		return
	}
	// The bytes first: who sees nothing lent any more sees them free.
	r.budget.used.Add(-n)
	r.returned()
	r.budget.freed()
}
