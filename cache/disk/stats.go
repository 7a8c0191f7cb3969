package disk

import (
	"log/slog"
	"sync"
)

// TierStats counts what a tier has done since it was opened.
type TierStats struct {
	Folder FolderStats
	Reads  ReadStats
	Writes WriteStats
}

// FolderStats counts the contents of the folder.
type FolderStats struct {
	Chunks int
	Bytes  int64 // bytes that count against Limit, including incomplete files
	Limit  int64
	Queued int64 // bytes of arrays in the queue
}

// ReadStats counts calls of Get by their outcome.
type ReadStats struct {
	Hits     int64
	HitBytes int64 // bytes of the arrays of all hits
	Saved    int64 // sum of the costs of all hits
	Misses   int64
	NoMemory int64 // reservations that were refused
	Damaged  int64 // files that were refused and deleted
	Failed   int64 // errors and timeouts of the disk
	Canceled int64 // callers whose context ended
}

// WriteStats counts offered chunks by their outcome.
type WriteStats struct {
	Chunks   int64
	Bytes    int64 // bytes of the written files
	Evicted  int64 // chunks that were deleted to make room
	Present  int64 // offers of chunks that the tier has or is about to write
	Dropped  int64 // offers while the queue was full, the disk did not work, or the tier was closed
	Unstored int64 // offers of types or sizes that are not stored
	Failed   int64 // errors and timeouts of the disk
}

// counters updates a TierStats, and logs the first failure of each kind.
type counters struct {
	log *slog.Logger

	mu     sync.Mutex
	stats  TierStats
	logged map[string]bool
}

func (c *counters) add(count func(*TierStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count(&c.stats)
}

// failed counts a failure. It logs only the first failure with each message.
func (c *counters) failed(message string, err error, count func(*TierStats)) {
	c.mu.Lock()
	count(&c.stats)
	first := !c.logged[message]
	c.logged[message] = true
	c.mu.Unlock()
	if first && c.log != nil {
		c.log.Warn(message+"; columns are decoded from their tables instead, and further failures of this kind are only counted", "error", err)
	}
}

func (c *counters) get() TierStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}
