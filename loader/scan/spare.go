package scan

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
)

// spares is the memory of a scanner's readers that they can do without: what they read
// ahead of the decoder. It is taken only where the budget has room that nobody is likely
// to need more urgently, and given back when somebody does.
type spares struct {
	budget *budget.Budget

	mu   sync.Mutex
	held map[*spare]func() // how each is dropped
}

// spare is a part of it.
type spare struct {
	of   *spares
	held *budget.Reservation
	lent atomic.Bool
}

func newSpares(b *budget.Budget) *spares {
	s := &spares{budget: b, held: map[*spare]func(){}}
	b.OnPressure(s.give)
	return s
}

// take reserves n bytes for a stream, if they are to spare.
func (s *spares) take(ctx context.Context, n int64, drop func()) (parquet.Spare, bool) {
	if !roomy(s.budget, n) {
		return nil, false
	}
	held, err := s.budget.ReserveFor(ctx, "what is read ahead", n)
	if err != nil {
		return nil, false
	}
	out := &spare{of: s, held: held}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[out] = drop
	return out, true
}

// Lend implements parquet.Spare.
func (s *spare) Lend() {
	s.lent.Store(true)
	s.held.Lend()
}

// Release implements parquet.Spare.
func (s *spare) Release() {
	s.of.mu.Lock()
	delete(s.of.held, s)
	s.of.mu.Unlock()
	s.held.Release()
}

// give drops what is held until so many bytes are free, or will be. What a decoder has
// taken stays, and does not count.
func (s *spares) give(bytes int64) {
	s.mu.Lock()
	held := maps.Clone(s.held)
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
}

// roomy says whether a budget has n bytes that nobody is likely to need more urgently.
func roomy(b *budget.Budget, n int64) bool {
	limit := b.Limit()
	return limit < 0 || b.Used()+n <= limit-limit/kept
}
