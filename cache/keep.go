package cache

import "slices"

// KeptStats counts the values that a [Shared] has kept after their last Need.
type KeptStats struct {
	Values, Bytes int64 // kept now
	Hits          int64 // how often a kept value was needed again
	HitBytes      int64 // the sizes of these values
}

// Stats returns the counts so far.
func (s *Shared[V]) Stats() KeptStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Values, out.Bytes = int64(len(s.kept)), s.keptBytes
	return out
}

// Drop releases all kept values, and returns their bytes.
func (s *Shared[V]) Drop() int64 { return s.release(1 << 62) }

// kept is an entry whose value is kept. The entry has one reference and no Need.
type kept[V any] struct {
	entry *entry[V]
	bytes int64 // how many bytes count as idle in the budget
}

// keep keeps the value of an entry whose last Need is being closed, and takes over the reference of
// that Need. The entry is locked, and s.mu is held; keep unlocks both.
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

// removeKept removes an entry from the kept ones because it is needed again. It returns the number
// of bytes that are no longer idle: 0 if the entry was not kept. s.mu is held.
func (s *Shared[V]) removeKept(e *entry[V]) int64 {
	at := slices.IndexFunc(s.kept, func(k kept[V]) bool { return k.entry == e })
	if at < 0 {
		return 0
	}
	size := s.kept[at].bytes
	e.locked <- struct{}{} // only an eviction can have the lock, and it leaves a kept value alone
	e.kept = false
	e.unlock()
	s.kept = slices.Delete(s.kept, at, at+1)
	s.entries.release(e) // the reference of keep
	s.keptBytes -= size
	s.stats.Hits++
	s.stats.HitBytes += size
	return size
}

// release releases kept values, in the order in which they were kept, until it has freed n bytes.
func (s *Shared[V]) release(n int64) (released int64) {
	for released < n {
		s.mu.Lock()
		if len(s.kept) == 0 {
			s.mu.Unlock()
			break
		}
		first := s.kept[0]
		s.kept = slices.Delete(s.kept, 0, 1)
		s.entries.release(first.entry) // the entry has no other reference
		s.keptBytes -= first.bytes
		s.mu.Unlock()
		first.entry.locked <- struct{}{} // only an eviction can have the lock
		first.entry.value.Release()
		first.entry.clear()
		first.entry.unlock()
		s.budget.AddIdle(-first.bytes)
		released += first.bytes
	}
	return released
}
