package chunkcache

import (
	"container/heap"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
)

// Filling describes a column that a scan is about to decode.
type Filling struct {
	Column ChunkID
	Table  string // the table's name, for lists
	Rows   int64  // of the row group
	// Repeated is whether the column is known to be read again: then the first scan fills
	// the cache, and otherwise the second one.
	Repeated bool
}

// Fill takes the arrays of a column as a scan decodes them. It is used by one goroutine.
type Fill struct {
	cache *ColumnCache
	unit  *cachedUnit
	rows  int64 // of the row group
}

// Fill begins to fill the cache with a column. It returns nil if the column is not cached yet by
// rule, or is already. The caller commits or abandons it.
func (c *ColumnCache) Fill(of Filling) *Fill {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.units[of.Column] != nil || c.isFilling(of.Column) {
		return nil
	}
	if !c.ghosts.seen(of.Column) && !of.Repeated {
		return nil
	}
	u := &cachedUnit{of: of.Column, table: of.Table, place: -1}
	c.filling[u] = true
	return &Fill{cache: c, unit: u, rows: of.Rows}
}

// isFilling reports whether a scan fills the cache with a column. c.mu is held.
func (c *ColumnCache) isFilling(of ChunkID) bool {
	for u := range c.filling {
		if u.of == of {
			return true
		}
	}
	return false
}

// Decoded is an array that a scan has decoded.
type Decoded struct {
	Array arrow.Array
	Took  time.Duration
	// Unchecked is whether pages had no checksum.
	Unchecked bool
	// Charge returns the reservation of the array's memory, which then belongs to the cache; nil if
	// there is none.
	Charge func(bytes int64) *budget.Reservation
}

// Add adds the next array, and returns a view to use instead, which the caller releases. It
// returns nil if there is no room, or the memory was needed: then the array stays the caller's, and so does its
// memory, and the column will not be cached.
func (f *Fill) Add(d Decoded) arrow.Array {
	bytes := sizeOf(d.Array)
	if !f.reserve(d, bytes) {
		return nil
	}
	held := d.Charge(bytes)
	if held == nil {
		f.Abandon()
		return nil
	}
	d.Array.NullN() // views must not count nulls at the same time
	d.Array.Retain()
	c := f.cache
	s := &segment{cache: c, array: d.Array, rows: int64(d.Array.Len()), bytes: bytes, held: held, views: 1}
	c.mu.Lock()
	if c.filling[f.unit] {
		s.kept = true
		f.unit.segments = append(f.unit.segments, s)
		f.unit.rows += s.rows
	}
	c.mu.Unlock()
	return s.wrap()
}

// reserve makes room for an array, or abandons the unit.
func (f *Fill) reserve(d Decoded, bytes int64) bool {
	c, u := f.cache, f.unit
	var e effects
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
		c.apply(e)
	}()
	if !c.filling[u] {
		return false
	}
	whole := bytes
	if rows := int64(d.Array.Len()); u.rows == 0 && rows > 0 {
		whole = int64(float64(bytes) * float64(f.rows) / float64(rows)) // of all arrays, so that none is begun needlessly
	}
	u.cost += d.Took
	u.unchecked = u.unchecked || d.Unchecked
	rate := rateOf(u.cost, u.bytes+bytes)
	if !c.makeRoom(whole, rate, &e) {
		c.drop(u, &e)
		c.pass(u.bytes+whole, rate)
		return false
	}
	u.bytes += bytes
	c.bytes += bytes
	return true
}

// Commit makes the column available, if all of its rows were added.
func (f *Fill) Commit() {
	c, u := f.cache, f.unit
	var e effects
	c.mu.Lock()
	complete := c.filling[u] && u.rows == f.rows && u.bytes > 0
	if complete && c.units[u.of] == nil {
		delete(c.filling, u)
		c.units[u.of] = u
		u.priority = c.clock + u.rate()
		heap.Push(&c.order, u)
		c.ghosts.remove(u.of)
		c.stats.Filled++
	} else {
		complete = false
		c.drop(u, &e)
	}
	if complete && c.options.Disk != nil {
		for _, s := range u.segments {
			s.view(&e)
		}
	}
	c.mu.Unlock()
	c.apply(e)
	if complete && c.options.Disk != nil {
		c.offer(u)
	}
}

// offer offers a unit to the disk. Its segments have a view each, until the disk has written them.
func (c *ColumnCache) offer(u *cachedUnit) {
	arrays := make([]arrow.Array, len(u.segments))
	for i, s := range u.segments {
		arrays[i] = s.array
	}
	c.options.Disk.Put(u.of, StoredColumn{Arrays: arrays, Cost: u.cost, Unchecked: u.unchecked}, func() {
		var e effects
		c.mu.Lock()
		for _, s := range u.segments {
			s.endView(&e)
		}
		c.mu.Unlock()
		c.apply(e)
	})
}

// Abandon ends the fill without a result. It is idempotent, and does nothing after Commit.
func (f *Fill) Abandon() {
	c := f.cache
	var e effects
	c.mu.Lock()
	if c.filling[f.unit] {
		c.drop(f.unit, &e)
	}
	c.mu.Unlock()
	c.apply(e)
}
