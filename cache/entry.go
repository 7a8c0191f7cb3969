package cache

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/release"
)

// entries are the entries that are in use, by key.
type entries[V any] struct {
	mu    sync.Mutex
	byKey map[string]*entry[V]
}

// entry holds the value of one key, or its absence. Invariants:
//   - the entry is in entries.byKey while refs is positive; entries.mu guards refs;
//   - value, loaded and kept are read and written only while locked is full.
type entry[V any] struct {
	key    string
	refs   int
	locked chan struct{} // a mutex: full while a goroutine holds it
	value  V
	loaded bool
	kept   bool // the value outlives its last Need, and only the Shared releases it
}

// acquire returns the entry of a key, and adds a reference that the caller must release.
func (s *entries[V]) acquire(key string) *entry[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		if s.byKey == nil {
			s.byKey = map[string]*entry[V]{}
		}
		e = &entry[V]{key: key, locked: make(chan struct{}, 1)}
		s.byKey[key] = e
	}
	e.refs++
	return e
}

// release drops a reference and reports whether it was the last. The last one removes
// the entry.
func (s *entries[V]) release(e *entry[V]) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.refs--
	if e.refs == 0 {
		delete(s.byKey, e.key)
	}
	return e.refs == 0
}

// isLast reports whether an entry has only one reference left.
func (s *entries[V]) isLast(e *entry[V]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.refs == 1
}

// markWaiting marks the stream of ctx as waiting until the Handle is released.
type markWaiting func(ctx context.Context) *release.Handle

// get calls use with the entry's value. It first loads the value if it is missing. The entry is
// locked until get returns, so use must not block.
func (e *entry[V]) get(ctx context.Context, mark markWaiting, load func(ctx context.Context) (V, error), use func(V)) error {
	if err := e.lock(ctx, mark); err != nil {
		return err
	}
	defer e.unlock()
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

// lock locks the entry. If it has to wait, it marks the wait.
func (e *entry[V]) lock(ctx context.Context, mark markWaiting) error {
	if e.tryLock() {
		return nil
	}
	defer mark(ctx).Release()
	select {
	case e.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock locks the entry if it is unlocked, and reports whether it did.
func (e *entry[V]) tryLock() bool {
	select {
	case e.locked <- struct{}{}:
		return true
	default:
		return false
	}
}

func (e *entry[V]) unlock() { <-e.locked }

// clear removes the value. The caller has locked the entry.
func (e *entry[V]) clear() {
	var none V
	e.value, e.loaded, e.kept = none, false, false
}
