package flight

import "sync"

// shareOf returns how many of a limit one host may have, given a percentage: at least one.
func shareOf(limit, percent int) int { return max(1, limit*percent/100) }

// hostCounts limits how many of something all clients together may have, and those of one host, or of one subject.
// It is safe for concurrent use.
type hostCounts struct {
	limit int // of all clients; 0: no limit
	share int // percentage of limit that one host may have

	mu    sync.Mutex
	total int
	hosts map[string]int // that of Unix domain sockets is "", and has no share
}

func newHostCounts(limit, share int) *hostCounts {
	return &hostCounts{limit: limit, share: share, hosts: map[string]int{}}
}

// enter counts one more of a host, or returns false if it is beyond a limit.
func (h *hostCounts) enter(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limit > 0 && (h.total >= h.limit || h.atShare(host)) {
		return false
	}
	h.total++
	h.hosts[host]++
	return true
}

// atShare reports whether a host has all that one may have. mu is held.
func (h *hostCounts) atShare(host string) bool {
	return host != "" && h.hosts[host] >= shareOf(h.limit, h.share)
}

// crowded reports whether a host has less than its share, but none is left.
func (h *hostCounts) crowded(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limit > 0 && h.total >= h.limit && !h.atShare(host)
}

// leave undoes enter.
func (h *hostCounts) leave(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total--
	if h.hosts[host]--; h.hosts[host] == 0 {
		delete(h.hosts, host)
	}
}
