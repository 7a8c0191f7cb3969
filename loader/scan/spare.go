package scan

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
)

// spares is the memory that a scanner's readers can do without, because it holds what was read
// ahead of the decoder. It is reserved only while the budget has memory to spare, and dropped when
// a reservation lacks room.
type spares struct {
	budget *budget.Budget

	mu     sync.Mutex
	held   map[*spare]func() // the func drops the memory
	shared map[*SharedScans]bool
}

// spare is one reservation of spares.
type spare struct {
	of   *spares
	held *budget.Reservation
	lent atomic.Bool
}

func newSpares(b *budget.Budget) *spares {
	s := &spares{budget: b, held: map[*spare]func(){}, shared: map[*SharedScans]bool{}}
	b.OnPressure(s.free)
	return s
}

// take reserves n bytes for a stream if there is memory to spare. drop is called when the
// memory is needed elsewhere; it releases the Spare unless the decoder has taken it.
func (s *spares) take(ctx context.Context, n int64, drop func()) (parquet.Spare, bool) {
	if !hasSpare(s.budget, n) {
		return nil, false
	}
	held, err := s.budget.ReserveFor(ctx, "what is read ahead", n)
	if err != nil {
		return nil, false
	}
	return s.add(held, drop), true
}

// add takes over a reservation. drop releases the reserved memory.
func (s *spares) add(held *budget.Reservation, drop func()) *spare {
	out := &spare{of: s, held: held}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[out] = drop
	return out
}

// MarkInFlight implements parquet.Spare.
func (s *spare) MarkInFlight() {
	s.lent.Store(true)
	s.held.MarkInFlight()
}

// Release implements parquet.Spare.
func (s *spare) Release() {
	s.of.mu.Lock()
	delete(s.of.held, s)
	s.of.mu.Unlock()
	s.held.Release()
}

// free drops memory until the given number of bytes is free, or will be free once running reads
// into the memory have returned. Memory that a decoder has taken over is not freed and does not
// count. If that is not enough, scans whose consumers are not waiting give up the bytes that they
// share.
func (s *spares) free(bytes int64) {
	s.mu.Lock()
	held, shared := maps.Clone(s.held), maps.Clone(s.shared)
	s.mu.Unlock()
	for one, drop := range held {
		if bytes <= 0 {
			return
		}
		n := one.held.Held()
		drop()
		if one.lent.Load() || one.held.Held() == 0 {
			bytes -= n
		}
	}
	for c := range shared {
		if bytes > 0 {
			bytes -= c.stored.Reclaim(bytes)
		}
	}
}

// hasSpare reports whether a budget has n free bytes in addition to the part that urgentDivisor
// keeps free.
func hasSpare(b *budget.Budget, n int64) bool {
	limit := b.Limit()
	return limit < 0 || b.InUse()+n <= limit-limit/urgentDivisor
}
