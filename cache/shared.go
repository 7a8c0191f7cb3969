package cache

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/release"
)

// Value is a value of a [Shared]: reference-counted, with a size.
type Value interface {
	Retain()
	Release()
	// Size returns the bytes that the last Release frees. If Memory or Disk is zero, it stays zero;
	// otherwise it stays positive.
	Size() Size
}

// Size is a number of bytes in the memory budget and on local disk.
type Size struct{ Memory, Disk int64 }

// Shared holds values by key while they are needed. It is safe for concurrent use.
// Invariants:
//   - the Shared has a reference to a loaded value until it evicts the value or the
//     last Need of it is closed, unless the value is kept;
//   - it evicts only idle values, the least recently pinned first: when the budget
//     lacks room, or when the last pin is released while more than half of the budget
//     is in use;
//   - kept values are in memory, need nothing to be released, and count as idle in the budget.
type Shared[V Value] struct {
	entries entries[V]
	budget  *budget.Budget
	keeps   int64 // maximum of keptBytes; 0: no value outlives its last Need

	mu        sync.Mutex
	pins      map[*entry[V]]int
	idle      []*entry[V] // were pinned and are no longer pinned, the least recently pinned first
	kept      []kept[V]   // in the order in which they were kept
	keptBytes int64
	stats     KeptStats
}

// NewShared makes a Shared whose values are charged to a budget. The budget may evict idle values.
// A nil budget is unlimited.
func NewShared[V Value](b *budget.Budget) *Shared[V] {
	s := &Shared[V]{budget: b, pins: map[*entry[V]]int{}}
	b.OnPressure(s.evict)
	return s
}

// NewKeeping is like NewShared, but keeps values in memory after their last Need is closed, until a
// reservation lacks room or the kept values exceed the given number of bytes. If the budget is nil,
// no value is kept.
func NewKeeping[V Value](b *budget.Budget, bytes int64) *Shared[V] {
	s := NewShared[V](b)
	if b != nil && bytes > 0 {
		s.keeps = bytes
		b.OnLack(func(bytes int64) { s.release(bytes) })
	}
	return s
}

// Need declares that the value of a key is needed, now or later, until the Need is closed. Get may
// be called concurrently; the other methods may not.
type Need[V Value] struct {
	shared *Shared[V]
	entry  *entry[V]
	pins   int // under shared.mu
	closed bool
}

// Need returns an open Need of the value of a key.
func (s *Shared[V]) Need(key string) *Need[V] {
	s.mu.Lock()
	e := s.entries.acquire(key)
	again := s.removeKept(e)
	s.mu.Unlock()
	s.budget.AddIdle(-again)
	return &Need[V]{shared: s, entry: e}
}

// Close closes the Need. Its pins must have been released. Closing the last Need of a key releases
// the value or keeps it, as NewKeeping describes. Close may be called more than once.
func (n *Need[V]) Close() { n.close(n.shared.keeps > 0) }

// CloseUnkept is like Close, but never keeps the value.
func (n *Need[V]) CloseUnkept() { n.close(false) }

func (n *Need[V]) close(keep bool) {
	if n.closed {
		return
	}
	n.closed = true
	s, e := n.shared, n.entry
	s.mu.Lock()
	invariant.Check(n.pins == 0, "a Need was closed while its value is pinned")
	if !s.entries.isLast(e) {
		s.entries.release(e)
		s.mu.Unlock()
		return
	}
	e.locked <- struct{}{} // no load is running; an eviction may be, but it does not take s.mu
	s.removeIdle(e)
	if keep && e.loaded && e.value.Size().Disk == 0 {
		s.keep(e)
		return
	}
	s.entries.release(e)
	s.mu.Unlock()
	defer e.unlock()
	if e.loaded {
		e.value.Release()
		e.clear()
	}
}

// Pin protects the value from eviction until the Handle is released. It may be called before the
// value is loaded. Pins may nest. A value without pins is evicted only when memory is short.
func (n *Need[V]) Pin() *release.Handle {
	s := n.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	n.pins++
	s.removeIdle(n.entry)
	s.pins[n.entry]++
	return release.New(n.unpin)
}

func (n *Need[V]) unpin() {
	s := n.shared
	s.mu.Lock()
	n.pins--
	s.pins[n.entry]--
	idle := s.pins[n.entry] == 0
	if idle {
		delete(s.pins, n.entry)
		s.idle = append(s.idle, n.entry)
	}
	s.mu.Unlock()
	if limit := s.budget.Limit(); idle && limit >= 0 && s.budget.InUse() > limit/2 {
		s.evict(s.budget.InUse() - limit/2)
	}
}

// Get returns the value with a reference, which the caller releases. If several callers need a
// missing value, one loads it with its ctx while the others wait; if the load fails, the next
// caller tries. Two goroutines of the same stream must not wait for each other here: a stream that
// waits in Get is marked as waiting for another stream (budget.MarkBlocked).
func (n *Need[V]) Get(ctx context.Context, load func(ctx context.Context) (V, error)) (V, error) {
	return n.get(ctx, budget.MarkBlocked, load)
}

// GetUnmarked is like Get for loads that do not wait for memory. Another goroutine of the same
// stream may be loading the value, so the stream is not marked as waiting.
func (n *Need[V]) GetUnmarked(ctx context.Context, load func(ctx context.Context) (V, error)) (V, error) {
	return n.get(ctx, unmarked, func(ctx context.Context) (V, error) { return load(budget.NoWait(ctx)) })
}

func (n *Need[V]) get(ctx context.Context, mark markWaiting, load func(ctx context.Context) (V, error)) (V, error) {
	var got V
	err := n.entry.get(ctx, mark, load, func(v V) {
		v.Retain()
		got = v
	})
	return got, err
}

// Key returns the key of the value.
func (n *Need[V]) Key() string { return n.entry.key }

// removeIdle removes an entry from the idle ones. s.mu is held.
func (s *Shared[V]) removeIdle(e *entry[V]) {
	s.idle = slices.DeleteFunc(s.idle, func(o *entry[V]) bool { return o == e })
}

// evict evicts idle values in memory until n more bytes of the budget are free, or no idle value
// remains. It runs on the goroutine that needs the memory.
func (s *Shared[V]) evict(n int64) {
	until := s.budget.Used() - n
	for _, e := range s.idleEntries() {
		if s.budget.Used() <= until {
			return
		}
		evictIf(e, func(size Size) bool { return size.Memory > 0 })
	}
}

// EvictDisk evicts all idle values on local disk, and reports whether there were any.
func (s *Shared[V]) EvictDisk() bool {
	evicted := false
	for _, e := range s.idleEntries() {
		evicted = evictIf(e, func(size Size) bool { return size.Disk > 0 }) || evicted
	}
	return evicted
}

// idleEntries returns a copy of the idle entries.
func (s *Shared[V]) idleEntries() []*entry[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.idle)
}

// evictIf evicts an entry's value if its size matches, and reports whether it did. It skips an
// entry that another goroutine has locked.
func evictIf[V Value](e *entry[V], matches func(Size) bool) bool {
	if !e.tryLock() {
		return false
	}
	defer e.unlock()
	if !e.loaded || e.kept || !matches(e.value.Size()) {
		return false
	}
	e.value.Release()
	e.clear()
	return true
}
