package cache

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/release"
)

// entries are the keys that somebody is interested in at the moment.
type entries[V any] struct {
	mu    sync.Mutex
	byKey map[string]*entry[V]
}

// entry is one key's place. It always holds that
//   - the entry is among its entries while interested is above 0, which
//     entries.mu guards;
//   - turn is full while somebody loads the value, looks at it or takes it
//     away: only then are value and loaded read or written.
type entry[V any] struct {
	key        string
	interested int
	turn       chan struct{}
	value      V
	loaded     bool
}

// enter returns the entry of a key for somebody who leaves it again.
func (s *entries[V]) enter(key string) *entry[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		if s.byKey == nil {
			s.byKey = map[string]*entry[V]{}
		}
		e = &entry[V]{key: key, turn: make(chan struct{}, 1)}
		s.byKey[key] = e
	}
	e.interested++
	return e
}

// leave ends somebody's interest in an entry, and says whether it was the last.
// Nobody finds the entry then.
func (s *entries[V]) leave(e *entry[V]) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.interested--
	if e.interested == 0 {
		delete(s.byKey, e.key)
	}
	return e.interested == 0
}

// markWaiting marks the stream of ctx as waiting, until the Handle is released.
type markWaiting func(ctx context.Context) *release.Handle

// get hands the entry's value to use, which must not block, loading it if there
// is none.
func (e *entry[V]) get(ctx context.Context, mark markWaiting, load func(ctx context.Context) (V, error), use func(V)) error {
	if err := e.wait(ctx, mark); err != nil {
		return err
	}
	defer e.pass()
	if !e.loaded {
		value, err := load(ctx)
		if err != nil {
			return err
		}
		e.value, e.loaded = value, true
	}
	use(e.value)
	return nil
}

// wait waits for the turn, and marks the wait if there is one.
func (e *entry[V]) wait(ctx context.Context, mark markWaiting) error {
	if e.try() {
		return nil
	}
	defer mark(ctx).Release()
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try takes the turn if nobody has it.
func (e *entry[V]) try() bool {
	select {
	case e.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// pass gives the turn to the next one.
func (e *entry[V]) pass() { <-e.turn }

// clear forgets the value, which the caller got under its turn.
func (e *entry[V]) clear() {
	var none V
	e.value, e.loaded = none, false
}
