package budget

// AddIdle changes the number of idle bytes by n. Idle bytes are reserved for memory that is not in
// use, and that its holder releases at once when a reservation lacks room (OnLack). InUse does not
// count them, so that idle memory does not stop others from keeping memory or reading ahead. A
// holder adds bytes once its OnLack function can release them. It subtracts them before it uses the
// memory again, or after it has released the memory: no waiter fails while there are idle bytes. If
// streams wait, AddIdle calls the OnLack function at once, so the caller must not hold a lock that
// the function needs.
func (b *Budget) AddIdle(n int64) {
	if b == nil || n == 0 {
		return
	}
	b.idle.Add(n)
	if n < 0 {
		b.freed() // settle fails no waiter while there are idle bytes
	} else {
		b.serveWaiters()
	}
}

// serveWaiters makes holders release the idle bytes that waiters lack.
func (b *Budget) serveWaiters() {
	if b.queue.length.Load() == 0 || b.idle.Load() <= 0 {
		return
	}
	b.queue.mu.Lock()
	n := int64(0)
	for _, w := range b.queue.waiting {
		n += w.bytes + w.into.keepFree
	}
	b.queue.mu.Unlock()
	b.lack(n)
}

// Idle returns the idle bytes.
func (b *Budget) Idle() int64 {
	if b == nil {
		return 0
	}
	return b.idle.Load()
}

// InUse returns the reserved bytes that are not idle.
func (b *Budget) InUse() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load() - b.idle.Load()
}
