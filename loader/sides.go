package loader

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/joiner"
)

// sides are the staging sides that the streams of a loader have in common, by
// all that they are made of: the first stream that needs one builds it, the
// others wait for it. A side that nobody uses at the moment stays while some
// open stream will need it again and memory is plentiful; it goes, the longest
// unused first, when the budget asks for room.
type sides struct {
	budget *budget.Budget

	mu    sync.Mutex
	byKey map[string]*side
	idle  []*side // without users, the longest unused first
}

// newSides makes the sides of a loader, and lets the budget have the idle ones.
func newSides(b *budget.Budget) *sides {
	s := &sides{budget: b, byKey: map[string]*side{}}
	b.OnPressure(s.reclaim)
	return s
}

// counted is a value that is counted by reference.
type counted interface {
	Retain()
	Release()
}

// side is one staging side. Whoever holds its turn may build it, use it or
// take it away.
type side struct {
	key     string
	streams int // that will need it, or use it
	users   int // lanes that use it now
	turn    chan struct{}
	built   counted // nil: not yet, or no more
}

// enter returns the side of a key for a stream that will use it.
func (s *sides) enter(key string) *side {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byKey[key]
	if one == nil {
		one = &side{key: key, turn: make(chan struct{}, 1)}
		s.byKey[key] = one
	}
	one.streams++
	return one
}

// leave ends a stream's interest in a side that it does not use any more. The
// last stream to leave frees it.
func (s *sides) leave(one *side) {
	s.mu.Lock()
	one.streams--
	last := one.streams == 0
	if last {
		delete(s.byKey, one.key)
		s.idle = slices.DeleteFunc(s.idle, func(o *side) bool { return o == one })
	}
	s.mu.Unlock()
	if !last {
		return
	}
	one.turn <- struct{}{} // nobody builds it any more, but it may be looked at
	if one.built != nil {
		one.built.Release()
		one.built = nil
	}
	<-one.turn
}

// acquire adds a user.
func (s *sides) acquire(one *side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.users++
	if one.users == 1 {
		s.idle = slices.DeleteFunc(s.idle, func(o *side) bool { return o == one })
	}
}

// release takes a user away. Without any, the side stays only where memory is
// plentiful.
func (s *sides) release(one *side) {
	s.mu.Lock()
	one.users--
	unused := one.users == 0
	if unused {
		s.idle = append(s.idle, one)
	}
	s.mu.Unlock()
	if limit := s.budget.Limit(); unused && limit >= 0 && s.budget.Used() > limit/2 {
		s.reclaim(s.budget.Used() - limit/2)
	}
}

// reclaim frees idle sides in memory until n bytes of the budget are, if there
// are so many. It is called by whoever needs room.
func (s *sides) reclaim(n int64) {
	until := s.budget.Used() - n
	for _, one := range s.unused() {
		if s.budget.Used() <= until {
			return
		}
		one.free(func(built counted) bool { return inMemory(built) })
	}
}

// clearDisk frees the idle sides on local disk, and says whether there was one.
func (s *sides) clearDisk() bool {
	freed := false
	for _, one := range s.unused() {
		freed = one.free(func(built counted) bool { return !inMemory(built) }) || freed
	}
	return freed
}

func inMemory(built counted) bool {
	_, ok := built.(*joiner.BuildSide)
	return ok
}

// unused lists the idle sides, the longest unused first.
func (s *sides) unused() []*side {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.idle)
}

// free gives up what was built if that is asked for, and says whether it did.
// A side that somebody is at stays.
func (one *side) free(which func(counted) bool) bool {
	select {
	case one.turn <- struct{}{}:
	default:
		return false
	}
	defer func() { <-one.turn }()
	if one.built == nil || !which(one.built) {
		return false
	}
	one.built.Release()
	one.built = nil
	return true
}

// get returns the built side with a reference of the caller's. Of several that
// ask at once, one builds and the others wait; when it fails, the next one
// tries.
func (one *side) get(ctx context.Context, build func(ctx context.Context) (counted, error)) (counted, error) {
	if err := one.await(ctx); err != nil {
		return nil, err
	}
	defer func() { <-one.turn }()
	if one.built == nil {
		built, err := build(ctx)
		if err != nil {
			return nil, err
		}
		one.built = built
	}
	one.built.Retain()
	return one.built, nil
}

// await waits for the turn. Meanwhile nobody waits for the memory that the
// stream of ctx holds.
func (one *side) await(ctx context.Context) error {
	select {
	case one.turn <- struct{}{}:
		return nil
	default:
	}
	defer budget.Blocked(ctx)()
	select {
	case one.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
