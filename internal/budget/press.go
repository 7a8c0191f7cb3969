package budget

import "slices"

// OnLack is OnPressure for a holder of memory that is not in use. Its function is called before
// those of OnPressure; if it frees enough, the budget does not count as pressed.
func (b *Budget) OnLack(free func(bytes int64)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare = append(b.spare, free)
}

// Plentiful reports whether at most half of the budget is in use and no stream waits. Memory
// that is not in use may be kept only then.
func (b *Budget) Plentiful() bool {
	return b == nil || b.InUse() <= b.limit/2 && b.queue.length.Load() == 0
}

// press asks the holders that can free memory for the bytes that a reservation of n bytes lacks.
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

// lack asks the holders of spare memory for the bytes that a reservation of n bytes lacks, and
// reports whether they freed them.
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

// Share ends the count against a peer's share: the memory is held for streams of several. It
// is called before the reservation is used by more than one goroutine.
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
