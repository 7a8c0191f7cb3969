package chunkcache

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// spareDivisor gives the part of the budget, 1/spareDivisor, that columns from disk must leave
// free: such columns can be decoded instead.
const spareDivisor = 4

// errNotSpare is the error of reserve when the budget has no memory to spare.
var errNotSpare = errors.New("there is no memory to spare")

// reserve reserves memory for a column from disk if the budget has memory to spare.
func (c *ColumnCache) reserve(bytes int64) (*budget.Reservation, error) {
	b := c.options.Budget
	if limit := b.Limit(); limit >= 0 && b.InUse()+bytes > limit-limit/spareDivisor {
		return nil, errNotSpare
	}
	return b.Reserve("a column of the disk cache", bytes)
}

// partDivisor bounds reads from disk of columns that the cache may not have room to keep. A scan
// that needs at least 1/partDivisor of a row group's rows always reads the column from disk. A scan
// that needs fewer rows does so only while the cached and passing units exceed Options.Limit by at
// most 1/partDivisor.
const partDivisor = 4

// asksDisk reports whether the disk is searched for a column. The disk reads all rows of the
// column, which can take longer than decoding only a few of them. c.mu is held.
func (c *ColumnCache) asksDisk(want Wanted) bool {
	limit := c.options.Limit
	return c.options.Disk != nil && (want.To-want.From >= want.Rows/partDivisor || c.bytes+c.promised+c.passingBytes <= limit+limit/partDivisor)
}

// take makes a unit of a column from disk. The unit is kept if there is room. Otherwise it is
// passing: scans find it until the last scan that has pinned it releases it. If the cache has an
// incomplete unit of the column that no scan is reading or filling, the new unit replaces it.
func (c *ColumnCache) take(of ChunkID, table string, stored *StoredColumn) *Pinned {
	u := unitOf(c, of, stored)
	if u == nil {
		return nil
	}
	u.table = table
	total := u.content.total
	var e effects
	c.mu.Lock()
	c.stats.DiskHits++
	e.idle += total.bytes
	if part := c.units[of]; part != nil && !part.complete() && !part.busy() {
		c.drop(part, &e)
	}
	if known := c.known(of); known != nil { // another scan was faster
		for _, s := range u.arrays() {
			s.release(&e)
		}
		u = known
	} else if c.units[of] == nil && c.makeRoom(total.bytes, c.rates.of(of, total), &e) {
		c.bytes += total.bytes
		c.units[of] = u
	} else {
		u.passes = true
		c.passing[of] = u
		c.passingBytes += total.bytes
	}
	p := c.pin(u)
	c.mu.Unlock()
	c.apply(e)
	return p
}

// known returns a complete unit of a column, or nil if there is none. c.mu is held.
func (c *ColumnCache) known(of ChunkID) *cachedUnit {
	if u := c.units[of]; u != nil && u.complete() {
		return u
	}
	return c.passing[of]
}

// unitOf makes a unit from a column that came from disk, and takes over its memory. If the column
// has codes of several dictionaries, unitOf releases the memory and returns nil.
func unitOf(c *ColumnCache, of ChunkID, stored *StoredColumn) *cachedUnit {
	defer stored.Held.Release()
	defer batch.ReleaseAll(stored.Arrays...)
	u := &cachedUnit{of: of, unchecked: stored.Unchecked, place: -1}
	values, ok := dictionaryOf(stored.Arrays)
	if !ok {
		return nil
	}
	if values != nil {
		u.content.dictionary = newDictionary(c, array.MakeFromData(values))
		u.content.dictionary.kept = true
		u.content.total.add(u.content.dictionary.tally)
	}
	for _, a := range stored.Arrays {
		if a.Len() == 0 {
			continue
		}
		s := &segment{cache: c, array: codesOf(a), coded: values != nil, from: u.rows, kept: true}
		s.tally = tally{rows: int64(a.Len()), bytes: sizeOf(s.array)}
		u.rows += s.rows
		u.content.total.add(s.tally)
		u.insert(s)
	}
	u.content.total.cost = stored.Cost
	rest := stored.Held.Held() - u.content.total.bytes
	for i, s := range u.arrays() {
		if i == 0 && rest > 0 {
			s.bytes += rest
			u.content.total.bytes += rest
		}
		s.held = stored.Held.Split(min(s.bytes, stored.Held.Held()))
	}
	return u
}

// offer returns a function that offers a complete unit to the disk. c.mu is held; the caller calls
// the function after it has unlocked c.mu. Each of the unit's segments gets a view until the disk
// has written it. Units in which only some rows are codes are not offered, because all arrays of a
// file on disk have one type.
func (c *ColumnCache) offer(u *cachedUnit, e *effects) func() {
	segments, rows := u.arrays(), u.content.spans
	if c.options.Disk == nil {
		return func() {}
	}
	if u.mixed() {
		c.stats.Mixed++
		return func() {}
	}
	values := StoredColumn{Cost: u.content.total.cost, Unchecked: u.unchecked}
	for _, s := range segments {
		s.view(e)
	}
	return func() {
		for _, p := range rows {
			values.Arrays = append(values.Arrays, u.slice(p))
		}
		defer batch.ReleaseAll(values.Arrays...)
		c.options.Disk.Put(u.of, values, func() {
			var e effects
			c.mu.Lock()
			for _, s := range segments {
				s.endView(&e)
			}
			c.mu.Unlock()
			c.apply(e)
		})
	}
}
