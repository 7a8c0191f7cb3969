package parquet

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// SharedChunks holds the stored column chunks of row groups for several Readers of one stream,
// which may be open at the same time: each chunk is read once and charged once, by the Reader that
// needs it first. The bytes stay in memory while a Reader decodes them. If another Reader will
// still need them, they stay longer, unless the memory is needed elsewhere: then it is given up,
// and the next Reader reads the bytes again. Readers share a row group if they read the same
// columns of it. It is safe for concurrent use, and must be closed.
type SharedChunks struct {
	needed func(location string, from, to int64) bool

	closed atomic.Bool

	mu      sync.Mutex            // must be locked before the mu of a fetch
	fetches map[chunkRange]*fetch // may include released fetches, until they are replaced
}

// chunkRange identifies the chunks of some leaves of a row group.
type chunkRange struct {
	location string
	group    int
	from, to int64  // the rows of the row group, counted in the file
	leaves   string // the numbers of the leaves, each followed by a space
}

// NewSharedChunks makes a SharedChunks. needed reports whether a Reader that may not exist yet
// will read some of the rows [from, to) of a file. It is called with locks held, and must not call
// the SharedChunks.
func NewSharedChunks(needed func(location string, from, to int64) bool) *SharedChunks {
	return &SharedChunks{needed: needed, fetches: map[chunkRange]*fetch{}}
}

// Settle releases the bytes that are no longer needed. The caller calls it whenever the result of
// needed has changed.
func (c *SharedChunks) Settle() {
	for _, f := range c.all() {
		f.mu.Lock()
		f.settleLocked()
		f.mu.Unlock()
	}
}

// Reclaim asks Readers to give up the bytes that they use, until at least the given number of bytes
// will be released soon. It returns the number of bytes that will be released.
func (c *SharedChunks) Reclaim(bytes int64) (reclaimed int64) {
	for _, f := range c.all() {
		if reclaimed < bytes {
			reclaimed += f.reclaim()
		}
	}
	return reclaimed
}

// reclaim asks all users to give the bytes up, and returns how many bytes will be released. If a
// user refuses, the bytes stay, and users that had agreed can take them again.
func (f *fetch) reclaim() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != fetchTaken || f.ending {
		return 0
	}
	for _, giveUp := range f.users {
		if giveUp == nil || !giveUp() {
			return 0
		}
	}
	f.ending = true
	f.held.spare.MarkInFlight()
	var bytes int64
	for _, r := range f.regions {
		bytes += r.length
	}
	return bytes
}

// Close releases all bytes that no Reader uses. The others are released by their Readers.
func (c *SharedChunks) Close() {
	c.closed.Store(true)
	c.Settle()
}

// all returns the fetches that may hold bytes, and removes all others from c.
func (c *SharedChunks) all() []*fetch {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*fetch
	for of, f := range c.fetches {
		if f.ended() {
			delete(c.fetches, of)
		} else {
			out = append(out, f)
		}
	}
	return out
}

// needs reports whether a Reader that has not joined yet will need the bytes of a range. It returns
// false if c is nil.
func (c *SharedChunks) needs(of chunkRange) bool {
	return c != nil && !c.closed.Load() && c.needed(of.location, of.from, of.to)
}

// join makes a reader join the fetch of a range and returns the fetch, which the reader leaves by
// stop or release. If there is no such fetch, join returns a new one that the reader must start, or
// nil if create is nil. If c is nil, there never is one.
func (c *SharedChunks) join(of chunkRange, create func(chunkRange) *fetch) (f *fetch, joined bool) {
	if c == nil {
		return create(of), false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.fetches[of]; f != nil && f.join() {
		return f, true
	}
	if create == nil {
		return nil, false
	}
	f = create(of)
	c.fetches[of] = f
	return f, false
}

// join adds a reader, unless the fetch has ended.
func (f *fetch) join() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.endedLocked() {
		return false
	}
	f.readers++
	return true
}

// ended reports whether the fetch has no bytes that a reader could still take, and will not get
// any.
func (f *fetch) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.endedLocked()
}

func (f *fetch) endedLocked() bool {
	switch f.state {
	case fetchFailed, fetchDropped, fetchReleased:
		return true
	case fetchReserving, fetchReading, fetchReady, fetchTaken:
	}
	return f.ending
}

// chunkRange returns the chunkRange of columns in a row group.
func (r *reading) chunkRange(group int, columns []column) chunkRange {
	rows := r.file.groups[group]
	out := chunkRange{location: r.file.Location(), group: group, from: rows.FirstRow, to: rows.FirstRow + rows.Rows}
	if r.opts.Shared != nil {
		var leaves strings.Builder
		for _, c := range columns {
			for _, leaf := range c.leaves {
				leaves.WriteString(strconv.Itoa(leaf))
				leaves.WriteByte(' ')
			}
		}
		out.leaves = leaves.String()
	}
	return out
}

// loadShared takes stored bytes from Shared, or reads them for all Readers. In the latter case it
// reserves the memory before other Readers can wait for the reads, because reserving may wait for
// these Readers.
func (r *reading) loadShared(of chunkRange, wanted []span, stored int64) error {
	for {
		if took, err := r.joinShared(of); took || err != nil {
			return err
		}
		if err := r.account.Reserve(stored); err != nil {
			return err
		}
		f, joined := r.opts.Shared.join(of, func(of chunkRange) *fetch {
			f := r.newFetch(of)
			f.users[r.source], f.cancel = r.source.giveUp, func() {}
			return f
		})
		if !joined {
			return r.readShared(f, wanted, stored)
		}
		r.account.Release(stored) // another reader was faster
		f.stop(false)
	}
}

// joinShared takes the bytes that another reader has read, or is reading. It returns false if no
// reader has.
func (r *reading) joinShared(of chunkRange) (bool, error) {
	f, joined := r.opts.Shared.join(of, nil)
	if !joined {
		return false, nil
	}
	took, _ := f.take(r.ctx, r.source)
	if !took {
		f.stop(false)
		return false, context.Cause(r.ctx)
	}
	r.source.use(f)
	return true, nil
}

// readShared reads the chunks of a fetch that this reader has created. Their memory has been
// admitted.
func (r *reading) readShared(f *fetch, wanted []span, stored int64) error {
	f.start(wanted, r.keep(stored, f.drop))
	f.run(r.ctx, r.file)
	f.mu.Lock()
	err, failed := f.err, f.endedLocked()
	f.mu.Unlock()
	if failed {
		return r.source.note(err)
	}
	r.source.use(f)
	return nil
}

// unchargedSpare is the Spare of a Reader without a limit.
type unchargedSpare struct{}

func (unchargedSpare) MarkInFlight() {}
func (unchargedSpare) Release()      {}

// keep moves n admitted bytes to shared memory.
func (r *reading) keep(n int64, drop func()) Spare {
	if r.opts.Keep == nil {
		return unchargedSpare{}
	}
	return r.opts.Keep(n, drop)
}
