package main

import "container/list"

// lru keeps the most recently used entries within a limit. The server's caches also weigh how long an entry took to make and how
// often it was used: that makes no difference between entries of one table that are read once in each epoch.
type lru struct {
	limit, bytes int64
	order        *list.List // of *entry, the most recently used first
	entries      map[string]*list.Element
}

type entry struct {
	key   string
	bytes int64
	spans []span
}

// span is the rows [from, to) of a file.
type span struct{ from, to int64 }

func newLRU(limit int64) *lru {
	return &lru{limit: limit, order: list.New(), entries: map[string]*list.Element{}}
}

// use reports whether rows of an entry were present, and adds them. An entry takes the given bytes, however many of its rows are
// present.
func (c *lru) use(key string, rows span, bytes int64) bool {
	if bytes > c.limit {
		return false
	}
	at, found := c.entries[key]
	if !found {
		at = c.order.PushFront(&entry{key: key, bytes: bytes})
		c.entries[key] = at
		c.bytes += bytes
	}
	c.order.MoveToFront(at)
	e := entryAt(at)
	present := covered(e.spans, rows)
	e.spans = append(e.spans, rows)
	c.trim(c.limit)
	return present
}

// trim removes the least recently used entries until the others fit.
func (c *lru) trim(limit int64) {
	for c.bytes > limit {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.entries, entryAt(last).key)
		c.bytes -= entryAt(last).bytes
	}
}

func entryAt(at *list.Element) *entry {
	return at.Value.(*entry) //nolint:forcetypeassert // use pushes nothing else
}

// covered reports whether spans together have all rows of another span.
func covered(spans []span, rows span) bool {
	for at := rows.from; at < rows.to; {
		next := at
		for _, s := range spans {
			if s.from <= at {
				next = max(next, s.to)
			}
		}
		if next == at {
			return false
		}
		at = next
	}
	return true
}
