package loader

// RememberedLanes is the maximum number of lanes whose counts are remembered.
const RememberedLanes = rememberedLanes

// Waiting returns the number of callers that wait for counts in progress.
func Waiting(l *Loader) int {
	l.counter.mu.Lock()
	defer l.counter.mu.Unlock()
	n := 0
	for _, run := range l.counter.running {
		n += run.waiting
	}
	return n
}
