package main

import (
	"sync"
	"time"

	"github.com/penstock/penstock/internal/telemetry"
)

// readyLimit is the time after which a server is ready for calls even if it still waits for a catalog or for storage.
const readyLimit = 10 * time.Second

// readiness is whether a server is ready for calls: not yet, then ready, then never again. It is safe for concurrent use.
type readiness struct {
	metrics *telemetry.Metrics
	once    sync.Once
	ready   chan struct{} // closed when the server is ready
}

func newReadiness(metrics *telemetry.Metrics) *readiness {
	return &readiness{metrics: metrics, ready: make(chan struct{})}
}

// begin makes the server ready, unless end was called before. It may be called more than once.
func (r *readiness) begin() {
	r.once.Do(func() {
		r.metrics.SetReady(true)
		close(r.ready)
	})
}

// end makes the server not ready.
func (r *readiness) end() {
	r.once.Do(func() {}) // begin has no effect from now on
	r.metrics.SetReady(false)
}
