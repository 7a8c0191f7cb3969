package plan

import (
	"sync/atomic"
	"time"
)

// CacheRead counts what was read from the cache of decoded columns.
type CacheRead struct {
	Columns int64         // columns of row groups, or of parts of row groups
	Bytes   int64         // decoded bytes
	Saved   time.Duration // how long it took to decode these columns when they were added to the cache
}

// Minus returns the difference from an earlier total.
func (r CacheRead) Minus(earlier CacheRead) CacheRead {
	return CacheRead{r.Columns - earlier.Columns, r.Bytes - earlier.Bytes, r.Saved - earlier.Saved}
}

// CacheReads sums the cache reads of the scans of a stream. The zero value is ready to use. It is
// safe for concurrent use; a nil *CacheReads counts nothing.
type CacheReads struct{ columns, bytes, saved atomic.Int64 }

// Add adds a read.
func (r *CacheReads) Add(more CacheRead) {
	if r == nil {
		return
	}
	r.columns.Add(more.Columns)
	r.bytes.Add(more.Bytes)
	r.saved.Add(int64(more.Saved))
}

// Total returns the sum so far.
func (r *CacheReads) Total() CacheRead {
	return CacheRead{r.columns.Load(), r.bytes.Load(), time.Duration(r.saved.Load())}
}
