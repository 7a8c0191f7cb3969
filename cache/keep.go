package cache

import "slices"

// KeptStats counts what a [Shared] has kept beyond the last Need of it.
type KeptStats struct {
	Values, Bytes int64 // kept now
	Hits          int64 // times that a kept value was needed again
	HitBytes      int64 // their sizes
}

// Stats returns the counts so far.
func (s *Shared[V]) Stats() KeptStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Values, out.Bytes = int64(len(s.kept)), s.keptBytes
	return out
}

// Kept reports whether the value of a key is kept.
func (s *Shared[V]) Kept(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.kept, func(k kept[V]) bool { return k.entry.key == key })
}

// Drop releases all kept values, and returns their bytes.
func (s *Shared[V]) Drop() int64 { return s.release(1 << 62) }

// kept is an entry with a value that is kept. It has one reference, and no Need.
type kept[V any] struct {
	entry *entry[V]
	bytes int64 // idle in the budget
}

// keep keeps the value of an entry, whose last Need is closed, with the reference of that Need. The
// entry is locked, and s.mu is held; keep unlocks both.
func (s *Shared[V]) keep(e *entry[V]) {
	size := e.value.Size().Memory
	s.kept = append(s.kept, kept[V]{e, size})
	s.keptBytes += size
	excess := s.keptBytes - s.keeps
	e.kept = true // an eviction may have begun while the value was idle
	e.unlock()
	s.mu.Unlock()
	s.budget.AddIdle(size)
	s.release(excess)
}

// removeKept removes an entry that is needed again from the kept ones. It returns the bytes
// that are idle no more, 0 if it was not kept. s.mu is held.
func (s *Shared[V]) removeKept(e *entry[V]) int64 {
	at := slices.IndexFunc(s.kept, func(k kept[V]) bool { return k.entry == e })
	if at < 0 {
		return 0
	}
	size := s.kept[at].bytes
	e.locked <- struct{}{} // at most an eviction has it, which leaves the value alone
	e.kept = false
	e.unlock()
	s.kept = slices.Delete(s.kept, at, at+1)
	s.entries.release(e) // that of keep
	s.keptBytes -= size
	s.stats.Hits++
	s.stats.HitBytes += size
	return size
}

// release releases kept values, the one kept first first, until they took n bytes.
func (s *Shared[V]) release(n int64) (released int64) {
	for released < n {
		s.mu.Lock()
		if len(s.kept) == 0 {
			s.mu.Unlock()
			break
		}
		first := s.kept[0]
		s.kept = slices.Delete(s.kept, 0, 1)
		s.entries.release(first.entry) // no one else has the entry from now on
		s.keptBytes -= first.bytes
		s.mu.Unlock()
		first.entry.locked <- struct{}{} // likewise
		first.entry.value.Release()
		first.entry.clear()
		first.entry.unlock()
		s.budget.AddIdle(-first.bytes)
		released += first.bytes
	}
	return released
}
