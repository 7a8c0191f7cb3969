package chunkcache

import (
	"container/heap"
	"iter"
	"maps"
)

// byPriority is a heap of units, the lowest priority first.
type byPriority []*cachedUnit

func (h byPriority) Len() int           { return len(h) }
func (h byPriority) Less(i, j int) bool { return h[i].priority < h[j].priority }
func (h byPriority) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *byPriority) Push(x any) {
	u := x.(*cachedUnit) //nolint:forcetypeassert // the heap has nothing else
	u.place = len(*h)
	*h = append(*h, u)
}

// Pop implements heap.Interface.
func (h *byPriority) Pop() any {
	last := len(*h) - 1
	u := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	u.place = -1
	return u
}

// drop removes a unit. c.mu is held.
func (c *ColumnCache) drop(u *cachedUnit, e *effects) {
	switch {
	case c.units[u.of] == u:
		delete(c.units, u.of)
		delete(c.filling, u)
		c.bytes -= u.content.total.bytes
		c.promised -= u.promised
	case c.passing[u.of] == u:
		delete(c.passing, u.of)
		c.passingBytes -= u.content.total.bytes
	default:
		return
	}
	if u.place >= 0 {
		heap.Remove(&c.order, u.place)
	}
	for _, s := range u.arrays() {
		s.release(e)
	}
}

const (
	// passes is how many times the cache's size scans have to read past the cache before an unused
	// unit of the usual cost loses its place.
	passes = 8
	// lead limits which units a new unit replaces: those whose priority exceeds the clock by at
	// most this part of the new unit's rate.
	lead = 0.5
)

// makeRoom drops units until the given bytes fit in addition to all units and to the room set aside
// for incomplete units. It reports whether the bytes fit. rate is the rate of the unit that needs
// the room; see victim for the units that it may replace. c.mu is held.
func (c *ColumnCache) makeRoom(bytes int64, rate float64, e *effects) bool {
	if bytes > c.options.Limit {
		return false
	}
	for bytes > 0 && c.bytes+c.promised+bytes > c.options.Limit {
		u := c.victim(rate)
		if u == nil {
			return false
		}
		c.stats.Evicted++
		c.drop(u, e)
	}
	return true
}

// victim returns the unit to drop for a new unit that has the given rate: the unit of the lowest
// priority if that is low enough, otherwise a spare unit that scans are filling. It returns nil if
// there is neither. c.mu is held.
func (c *ColumnCache) victim(rate float64) *cachedUnit {
	if len(c.order) > 0 && c.order[0].priority <= c.clock+lead*rate {
		return c.order[0]
	}
	for u := range c.filling {
		if u.spare && u.pins == 0 {
			return u
		}
	}
	return nil
}

// hasSpare reports whether bytes of a spare unit fit without dropping anything else. c.mu is held.
func (c *ColumnCache) hasSpare(bytes int64) bool {
	b := c.options.Budget
	limit := b.Limit()
	return c.bytes+c.promised+bytes <= c.options.Limit && b.Plentiful() && (limit < 0 || b.Used()+max(bytes, 0) <= limit)
}

// pass advances the clock for a unit that found no room. c.mu is held.
func (c *ColumnCache) pass(bytes int64, rate float64) {
	c.stats.Passed++
	c.clock += lead * rate * float64(bytes) / float64(max(c.options.Limit, 1)) / passes
}

// giveUp drops units until n idle bytes are free: first unused units, the lowest priority first;
// then units that scans are filling; last, units that scans have pinned.
func (c *ColumnCache) giveUp(n int64) {
	var e effects
	c.mu.Lock()
	c.giveUpUnused(n, &e)
	c.giveUpSome(n, maps.Keys(c.filling), false, &e)
	c.giveUpSome(n, maps.Values(c.passing), true, &e)
	c.giveUpSome(n, maps.Values(c.units), true, &e)
	c.mu.Unlock()
	c.apply(e)
}

// giveUpUnused drops units that no scan reads or fills until n idle bytes are free. c.mu is held.
func (c *ColumnCache) giveUpUnused(n int64, e *effects) {
	var inUse []*cachedUnit // units without idle memory, since all of it has views
	for len(c.order) > 0 && -e.idle < n {
		before := e.idle
		u := c.order[0]
		if u.idle() == 0 {
			heap.Remove(&c.order, 0)
			inUse = append(inUse, u)
			continue
		}
		c.drop(u, e)
		c.stats.GivenUp += before - e.idle
	}
	for _, u := range inUse {
		heap.Push(&c.order, u)
	}
}

// giveUpSome drops some of the given units until n idle bytes are free. It drops pinned units only
// if pinned is true. c.mu is held.
func (c *ColumnCache) giveUpSome(n int64, units iter.Seq[*cachedUnit], pinned bool, e *effects) {
	for u := range units {
		if -e.idle >= n {
			return
		}
		if (u.pins == 0 || pinned) && u.idle() > 0 {
			c.drop(u, e)
		}
	}
}

// idle returns the idle bytes of the unit. The mutex of its cache is held.
func (u *cachedUnit) idle() (bytes int64) {
	for _, s := range u.arrays() {
		if s.kept && s.views == 0 {
			bytes += s.bytes
		}
	}
	return bytes
}

// Drop drops all units of a table, given by name or uuid; "" means all tables. It returns the
// number and bytes of the dropped units that had rows.
func (c *ColumnCache) Drop(table string) (units int, bytes int64) {
	var e effects
	c.mu.Lock()
	for _, u := range c.units {
		if table == "" || u.table == table || u.of.Table == table {
			if u.has() {
				units, bytes = units+1, bytes+u.content.total.bytes
			}
			c.drop(u, &e)
		}
	}
	c.mu.Unlock()
	c.apply(e)
	return units, bytes
}
