package inbound

import (
	"log/slog"
	"sync"
	"time"
)

// logRefusalsEvery is the least time between two lines about refused connections in the log.
const logRefusalsEvery = 10 * time.Second

// refusals logs refused connections. It counts the connections that are refused between two lines
// of the log.
type refusals struct {
	logger *slog.Logger
	clock  func() time.Time

	mu     sync.Mutex
	count  int64 // since the last line
	logged time.Time
}

func newRefusals(logger *slog.Logger, clock func() time.Time) *refusals {
	return &refusals{logger: logger, clock: clock}
}

// refused counts a refused connection of a host.
func (r *refusals) refused(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	now := r.clock()
	if !r.logged.IsZero() && now.Sub(r.logged) < logRefusalsEvery {
		return
	}
	r.logger.Warn("connections refused: too many are open, of this host or in all", "refused", r.count, "host", host)
	r.count, r.logged = 0, now
}
