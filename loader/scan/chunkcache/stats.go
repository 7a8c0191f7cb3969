package chunkcache

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// CacheStats has the contents and the counters of a ColumnCache.
type CacheStats struct {
	Units, Bytes, Limit int64
	Partial             int64 // units that lack some rows
	Hits                int64 // columns of row groups, or of parts of them, that scans read from memory
	DiskHits            int64 // columns of row groups that were loaded from disk
	HitBytes            int64 // decoded bytes that scans read from the cache
	Saved               time.Duration
	Misses              int64 // columns of row groups that scans did not find
	Filled              int64 // units that became complete
	Evicted             int64 // units that made room for others
	Passed              int64 // columns of row groups, or of parts of them, that found no room
	GivenUp             int64 // bytes that were given up for streams
	Mixed               int64 // columns of row groups that no Disk gets, since only some of their rows are codes
}

// Stats returns the counts so far.
func (c *ColumnCache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Bytes, out.Limit = c.bytes, c.options.Limit
	for _, u := range c.units {
		if u.has() {
			out.Units++
		}
		if u.has() && !u.complete() {
			out.Partial++
		}
	}
	return out
}

// Listed is what a ColumnCache has of a file.
type Listed struct {
	Table, File string // name and path
	Columns     int    // columns of row groups, including incomplete ones
	Bytes       int64
	Hits        int64
	Saved       time.Duration // decoding time saved by one use of all columns
}

// List returns what the cache has, by table and file.
func (c *ColumnCache) List() []Listed {
	type file struct{ table, file string }
	byFile := map[file]*Listed{}
	c.mu.Lock()
	for _, u := range c.units {
		if !u.has() {
			continue
		}
		at := file{u.table, u.of.File}
		if byFile[at] == nil {
			byFile[at] = &Listed{Table: u.table, File: u.of.File}
		}
		l := byFile[at]
		l.Columns, l.Bytes, l.Hits, l.Saved = l.Columns+1, l.Bytes+u.content.total.bytes, l.Hits+u.hits, l.Saved+u.content.total.cost
	}
	c.mu.Unlock()
	out := make([]Listed, 0, len(byFile))
	for _, l := range slices.Collect(maps.Values(byFile)) {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Listed) int { return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.File, b.File)) })
	return out
}

// TableHits is what scans of a table read from memory.
type TableHits struct{ Columns, Bytes int64 }

// Hits returns the hits by table.
func (c *ColumnCache) Hits() map[string]TableHits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.hits)
}

// hit counts a read of some rows of a unit, and returns the rows' bytes and the time that decoding
// them took. first is whether this is the scan's first read of the unit. c.mu is held.
func (c *ColumnCache) hit(u *cachedUnit, first bool, rows int64) (bytes int64, saved time.Duration) {
	of, all := c.hits[u.table], u.content.total
	if first {
		u.hits++
		c.stats.Hits++
		of.Columns++
	}
	part := float64(rows) / float64(max(all.rows, 1))
	bytes, saved = int64(part*float64(all.bytes)), time.Duration(part*float64(all.cost))
	c.stats.HitBytes += bytes
	c.stats.Saved += saved
	of.Bytes += bytes
	c.hits[u.table] = of
	return bytes, saved
}

// UUIDs returns the uuids of the tables with a name for which the cache has units. There are
// several if a table of this name was dropped and created again.
func (c *ColumnCache) UUIDs(table string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]bool{}
	for _, u := range c.units {
		if u.table == table {
			found[u.of.Table] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// Warm returns how many columns of row groups the cache has of a table, given by its uuid, and in
// how many files.
func (c *ColumnCache) Warm(table string) (files, columns int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	for _, u := range c.units {
		if u.of.Table == table && u.has() {
			seen[u.of.File] = true
			columns, bytes = columns+1, bytes+u.content.total.bytes
		}
	}
	return len(seen), columns, bytes
}
