package budget

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/release"
)

// SharedReservation reserves memory that several holders share. The memory of each key is reserved
// once, as long as the key has a holder. It is safe for concurrent use. The zero value belongs to
// no budget and is unlimited.
type SharedReservation[K comparable] struct {
	budget *Budget
	what   string

	mu     sync.Mutex
	shared map[K]*shared
}

// shared is the reservation of one key.
type shared struct {
	holders int
	ready   chan struct{} // closed when the first holder has reserved the bytes or failed to do so
	held    *Reservation  // nil: the reservation failed
}

// NewSharedReservation makes a SharedReservation. Errors name the purpose of its memory.
func NewSharedReservation[K comparable](b *Budget, what string) *SharedReservation[K] {
	return &SharedReservation[K]{budget: b, what: what, shared: map[K]*shared{}}
}

// Hold adds a holder of a key, whose memory takes the given bytes, until the Handle is released.
// The first holder reserves the bytes, and waits for room as GrowWait does, while other holders
// wait for it. If it fails, another holder tries.
func (o *SharedReservation[K]) Hold(ctx context.Context, key K, bytes int64) (*release.Handle, error) {
	if o == nil || o.budget == nil {
		return nil, nil //nolint:nilnil // a nil Handle holds nothing
	}
	for {
		s, first := o.acquire(key)
		var err error
		if first {
			err = o.reserve(ctx, key, s, bytes)
		} else {
			err = s.wait(ctx)
		}
		if err != nil {
			o.release(key, s)
			return nil, err
		}
		if s.held != nil {
			return release.New(func() { o.release(key, s) }), nil
		}
		o.release(key, s) // the first holder failed
	}
}

// reserve reserves the bytes of a key.
func (o *SharedReservation[K]) reserve(ctx context.Context, key K, s *shared, bytes int64) error {
	held, err := o.budget.Reserve(o.what, 0)
	if err == nil {
		err = held.GrowWait(ctx, bytes)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		delete(o.shared, key) // the next holder tries again
	} else {
		s.held = held
	}
	close(s.ready)
	return err
}

// wait waits until the first holder has reserved the bytes or failed.
func (s *shared) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	default:
	}
	defer MarkBlocked(ctx).Release()
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acquire adds a holder of a key, and reports whether it is the first one, which must reserve the
// bytes.
func (o *SharedReservation[K]) acquire(key K) (s *shared, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s = o.shared[key]
	if s == nil {
		s, first = &shared{ready: make(chan struct{})}, true
		o.shared[key] = s
	}
	s.holders++
	return s, first
}

// release removes a holder of a key. The last one releases the memory.
func (o *SharedReservation[K]) release(key K, s *shared) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.holders--
	if s.holders > 0 || s.held == nil {
		return
	}
	delete(o.shared, key)
	s.held.Release()
}
