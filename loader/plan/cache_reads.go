package plan

import (
	"sync/atomic"
	"time"
)

// CacheRead is what was read from the cache of decoded columns.
type CacheRead struct {
	Columns int64         // of row groups, or of parts of them
	Bytes   int64         // decoded
	Saved   time.Duration // that decoding them took
}

// Minus returns the difference from an earlier total.
func (r CacheRead) Minus(earlier CacheRead) CacheRead {
	return CacheRead{r.Columns - earlier.Columns, r.Bytes - earlier.Bytes, r.Saved - earlier.Saved}
}

// CacheReads adds up what the scans of a stream read from the cache. The zero value is ready to use. It is safe for
// concurrent use; nil counts nothing.
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
