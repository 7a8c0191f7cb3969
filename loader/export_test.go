package loader

// RememberedLanes is of how many lanes counts are remembered.
const RememberedLanes = rememberedLanes

// Waiting returns how many wait for plans that are being counted.
func Waiting(l *Loader) int {
	l.counter.mu.Lock()
	defer l.counter.mu.Unlock()
	n := 0
	for _, run := range l.counter.running {
		n += run.waiting
	}
	return n
}
