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
// needs it first. The bytes stay while a Reader decodes them, and longer if they are still needed,
// as long as no one else needs the memory; if it was given up, the next Reader reads them again.
// Readers share a row group if they read the same columns of it. It is safe for concurrent use,
// and must be closed.
type SharedChunks struct {
	needed func(location string, from, to int64) bool

	closed atomic.Bool

	mu      sync.Mutex            // locked before that of a fetch
	fetches map[chunkRange]*fetch // also those that are released, until they are replaced
}

// chunkRange identifies the chunks of some leaves of a row group.
type chunkRange struct {
	location string
	group    int
	from, to int64  // its rows in the file
	leaves   string // their numbers
}

// NewSharedChunks makes a SharedChunks. needed reports whether a Reader that may not exist yet
// will read some of the rows [from, to) of a file. It is called with locks held, and must not call
// the SharedChunks.
func NewSharedChunks(needed func(location string, from, to int64) bool) *SharedChunks {
	return &SharedChunks{needed: needed, fetches: map[chunkRange]*fetch{}}
}

// Settle releases the bytes that are no longer needed. It is called after what needed reports
// has changed.
func (c *SharedChunks) Settle() {
	for _, f := range c.all() {
		f.mu.Lock()
		f.settleLocked()
		f.mu.Unlock()
	}
}

// Reclaim asks the Readers that use bytes to give them up, until the given number of bytes will be
// released soon, and returns how many will be.
func (c *SharedChunks) Reclaim(bytes int64) (reclaimed int64) {
	for _, f := range c.all() {
		if reclaimed < bytes {
			reclaimed += f.reclaim()
		}
	}
	return reclaimed
}

// reclaim asks all users to give the bytes up. If one refuses, those that gave up take them again.
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

// all returns the fetches that may hold bytes, and forgets the others.
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

// needs reports whether bytes are needed by a Reader that has not joined. nil needs none.
func (c *SharedChunks) needs(of chunkRange) bool {
	return c != nil && !c.closed.Load() && c.needed(of.location, of.from, of.to)
}

// join returns the fetch of a range, for a reader that leaves it by stop or release. If there is
// none, it returns a new one that the reader starts, or nil if create is nil. nil has none.
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

// ended reports whether there are no bytes, nor will be.
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

// chunkRange returns the range of columns in a row group.
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

// loadShared takes stored bytes from Shared, or reads them for all Readers. The
// memory is reserved before others can wait for the reads, since reserving it may wait for them.
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

// joinShared takes the bytes that another reader has read, or reads. It returns false if there
// are none.
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

// readShared reads the chunks of a fetch that this reader has made, with admitted memory.
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
