package budget

import "slices"

// OnLack is like OnPressure, for a holder of memory that is not in use. OnLack functions are called
// before OnPressure functions. If they free enough, the budget does not count as pressed.
func (b *Budget) OnLack(free func(bytes int64)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = append(b.spare, free)
}

// Plentiful reports whether at most half of the budget is in use and no stream waits. Holders may
// keep memory that is not in use only if Plentiful returns true.
func (b *Budget) Plentiful() bool {
	return b == nil || b.InUse() <= b.limit/2 && b.queue.length.Load() == 0
}

// press calls the registered functions to free the bytes that a reservation of n bytes lacks.
func (b *Budget) press(n int64) {
	lacks := b.used.Load() + n - b.limit
	if lacks <= 0 {
		return // only the peer's share lacks room
	}
	if b.lack(n) {
		return
	}
	b.pressed.Store(true)
	b.mu.Lock()
	frees := slices.Clone(b.frees)
	b.mu.Unlock()
	for _, free := range frees {
		free(lacks)
	}
}

// lack calls the OnLack functions to free the bytes that a reservation of n bytes lacks, and
// reports whether they freed enough.
func (b *Budget) lack(n int64) bool {
	b.mu.Lock()
	spare := slices.Clone(b.spare)
	b.mu.Unlock()
	if len(spare) == 0 {
		return false
	}
	for _, free := range spare {
		if lacks := b.used.Load() + n - b.limit; lacks > 0 {
			free(lacks)
		}
	}
	return b.used.Load()+n <= b.limit
}

// Share makes the reservation no longer count against a peer's share, because streams of several
// peers use the memory. It must be called before several goroutines use the reservation.
func (r *Reservation) Share() {
	if r.peer == nil {
		return
	}
	r.peer.held.Add(-r.held.Load())
	r.peer = nil
	if b := r.budget; b != nil {
		b.freed()
	}
}
