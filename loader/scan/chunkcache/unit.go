package chunkcache

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// cachedUnit is a column of a row group. Its fields are guarded by ColumnCache.mu, except for those of segments
// that say so.
type cachedUnit struct {
	of       ChunkID
	table    string // name, for lists
	segments []*segment
	rows     int64
	bytes    int64
	cost     time.Duration // of decoding it
	priority float64
	pins     int
	place    int // in ColumnCache.order; -1: it is not there
	hits     int64
	// unchecked is whether pages of it had no checksum.
	unchecked bool
	passes    bool // it came from disk, leaves with its pin, and does not count as cached
}

// segment is an array of a unit, with its memory.
type segment struct {
	cache *ColumnCache
	array arrow.Array // invalid once it is freed
	rows  int64
	bytes int64
	held  *budget.Reservation

	// Guarded by ColumnCache.mu. The segment is idle while it is kept without views, and freed when it is
	// neither kept nor has views.
	views int
	kept  bool
}

func (u *cachedUnit) add(s *segment) {
	u.segments = append(u.segments, s)
	u.rows += s.rows
	u.bytes += s.bytes
}

// copyRate is the least time that rebuilding a byte takes, in nanoseconds.
const copyRate = 0.1

// rate returns the time that rebuilding takes per byte, in nanoseconds.
func (u *cachedUnit) rate() float64 { return rateOf(u.cost, u.bytes) }

func rateOf(cost time.Duration, bytes int64) float64 {
	return float64(cost)/float64(max(bytes, 1)) + copyRate
}

func sizeOf(a arrow.Array) int64 { return max(batch.ArraySize(a), 1) }

// effects is what follows from a change after ColumnCache.mu is unlocked.
type effects struct {
	idle  int64 // bytes that became idle, or no longer are
	freed []*segment
}

// apply applies effects. c.mu is not held. Bytes count as idle until they are free: while they do, no
// waiting stream fails.
func (c *ColumnCache) apply(e effects) {
	for _, s := range e.freed {
		s.array.Release()
		s.held.Release()
	}
	c.options.Budget.AddIdle(e.idle)
}

// view adds a view to a segment. c.mu is held.
func (s *segment) view(e *effects) {
	if s.views++; s.views == 1 && s.kept {
		e.idle -= s.bytes
	}
}

// endView undoes view. c.mu is held.
func (s *segment) endView(e *effects) {
	if s.views--; s.views > 0 {
		return
	}
	if s.kept {
		e.idle += s.bytes
	} else {
		e.freed = append(e.freed, s)
	}
}

// release drops the cache's own hold of a segment. c.mu is held.
func (s *segment) release(e *effects) {
	s.kept = false
	if s.views == 0 {
		e.idle -= s.bytes
		e.freed = append(e.freed, s)
	}
}
