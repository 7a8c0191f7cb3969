package cache

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/invariant"
)

// Value is what a [Shared] holds: counted by reference, with a size.
type Value interface {
	Retain()
	Release()
	// Size is what releasing the last reference frees. It does not change.
	Size() Size
}

// Size is bytes of the memory budget, and of local disk.
type Size struct{ Memory, Disk int64 }

// Shared holds values by key for those who need them. It is safe for concurrent
// use. It always holds that
//   - a value has a reference of the Shared's as long as somebody needs it, from
//     when it was loaded until it is evicted;
//   - it is evicted only while nobody uses it, the longest unused first: when
//     the budget asks for room, or when the last use ends while more than half
//     of the budget is taken;
//   - it ends with the last need.
type Shared[V Value] struct {
	entries entries[V]
	budget  *budget.Budget

	mu   sync.Mutex
	uses map[*entry[V]]int
	idle []*entry[V] // used before and not now, the longest unused first
}

// NewShared makes a Shared whose values are held in a budget, which may ask for
// those that nobody uses; nil is unlimited.
func NewShared[V Value](b *budget.Budget) *Shared[V] {
	s := &Shared[V]{budget: b, uses: map[*entry[V]]int{}}
	b.OnPressure(s.evict)
	return s
}

// Need is somebody's need of one value, now or later. It is used by one
// goroutine at a time, save Get.
type Need[V Value] struct {
	of    *Shared[V]
	entry *entry[V]
	uses  int
}

// Need says that the value of a key will be needed, until Done.
func (s *Shared[V]) Need(key string) *Need[V] { return &Need[V]{of: s, entry: s.entries.enter(key)} }

// Done ends the need, which must not be in use. The last one frees the value.
func (n *Need[V]) Done() {
	invariant.Check(n.uses == 0, "a value is given up that is used")
	s := n.of
	if !s.entries.leave(n.entry) {
		return
	}
	s.mu.Lock()
	s.forget(n.entry)
	s.mu.Unlock()
	n.entry.turn <- struct{}{} // nobody loads it any more, but an eviction may be looking at it
	defer n.entry.pass()
	if n.entry.loaded {
		n.entry.value.Release()
		n.entry.clear()
	}
}

// Use says that the value is used from now on, until Idle. Uses may nest.
func (n *Need[V]) Use() {
	n.uses++
	s := n.of
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(n.entry)
	s.uses[n.entry]++
}

// Idle ends a Use. The value stays, where there is memory for it.
func (n *Need[V]) Idle() {
	n.uses--
	s := n.of
	s.mu.Lock()
	s.uses[n.entry]--
	unused := s.uses[n.entry] == 0
	if unused {
		delete(s.uses, n.entry)
		s.idle = append(s.idle, n.entry)
	}
	s.mu.Unlock()
	if limit := s.budget.Limit(); unused && limit >= 0 && s.budget.Used() > limit/2 {
		s.evict(s.budget.Used() - limit/2)
	}
}

// Get returns the value with a reference of the caller's. Of several who ask for
// it at once, one loads it with its ctx, and the others wait; when that fails,
// the next one tries. It may be called by several goroutines at once. The stream
// of ctx must not be the one that loads: while it waits, it counts as standing
// still until another stream has done something (budget.MarkBlocked).
func (n *Need[V]) Get(ctx context.Context, load func(ctx context.Context) (V, error)) (V, error) {
	return n.get(ctx, budget.MarkBlocked, load)
}

// GetUnmarked is Get for loads that wait for no memory: the stream of ctx may be the one
// that loads, and does not count as standing still.
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

// Key is the key of the value.
func (n *Need[V]) Key() string { return n.entry.key }

// forget takes an entry out of those that are idle. s.mu is held.
func (s *Shared[V]) forget(e *entry[V]) {
	s.idle = slices.DeleteFunc(s.idle, func(o *entry[V]) bool { return o == e })
}

// evict gives up values in memory that nobody uses until n bytes of the budget
// are free that were not, if there are so many. It is called by whoever needs
// room.
func (s *Shared[V]) evict(n int64) {
	until := s.budget.Used() - n
	for _, e := range s.unused() {
		if s.budget.Used() <= until {
			return
		}
		discard(e, func(size Size) bool { return size.Memory > 0 })
	}
}

// EvictDisk gives up the values on local disk that nobody uses, and says
// whether there was one.
func (s *Shared[V]) EvictDisk() bool {
	some := false
	for _, e := range s.unused() {
		some = discard(e, func(size Size) bool { return size.Disk > 0 }) || some
	}
	return some
}

// unused lists what is idle.
func (s *Shared[V]) unused() []*entry[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.idle)
}

// discard gives up an entry's value if its size is one that is asked for, and
// says whether it did. A value that is being loaded or looked at stays.
func discard[V Value](e *entry[V], which func(Size) bool) bool {
	if !e.try() {
		return false
	}
	defer e.pass()
	if !e.loaded || !which(e.value.Size()) {
		return false
	}
	e.value.Release()
	e.clear()
	return true
}
