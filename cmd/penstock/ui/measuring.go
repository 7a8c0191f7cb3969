package ui

import (
	"context"
	"crypto/sha256"
	"sync"
)

// measuring has the measurements that run: at most one for each viewer.
type measuring struct {
	mu      sync.Mutex
	running map[[sha256.Size]byte]*running // by the digest of the viewer's credentials
}

// running is a measurement that runs.
type running struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed at its end
}

// begin ends the measurement of a viewer, if one runs, and begins another one. The caller calls end. The context ends with the given one, or when the
// same viewer begins another measurement; the cause is measuredAnew then.
func (m *measuring) begin(ctx context.Context, viewer string) (measured context.Context, end func()) {
	key := sha256.Sum256([]byte(viewer))
	measured, cancel := context.WithCancelCause(ctx)
	own := &running{cancel, make(chan struct{})}
	m.mu.Lock()
	before := m.running[key]
	if m.running == nil {
		m.running = map[[sha256.Size]byte]*running{}
	}
	m.running[key] = own
	m.mu.Unlock()
	if before != nil {
		before.cancel(measuredAnew())
		select {
		case <-before.done:
		case <-measured.Done():
		}
	}
	return measured, func() {
		cancel(nil)
		m.mu.Lock()
		if m.running[key] == own {
			delete(m.running, key)
		}
		m.mu.Unlock()
		close(own.done)
	}
}
