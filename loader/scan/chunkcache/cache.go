package chunkcache

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
)

// ChunkID identifies the values of a column of a row group, as decoded to a type. Equal ids have
// equal values, since the files of tables never change.
type ChunkID struct {
	Table    string // the table's uuid
	File     string // the file's path, relative to the table's location
	FileSize int64  // in bytes
	RowGroup int
	Field    int    // the column's field id
	Type     string // the type that the reader wants, in any form that is unique
}

// Disk is a slower tier, which outlives the process.
type Disk interface {
	// Get returns the values of a column, if it has them. It reports no failures: without a
	// result, the column is decoded.
	Get(ctx context.Context, of ChunkID, want Wanted) (*StoredColumn, bool)
	// Put offers values, whose arrays it retains until it calls done, once. Their Held is nil.
	Put(of ChunkID, values StoredColumn, done func())
}

// Wanted is what is expected of the values of a column.
type Wanted struct {
	Table string           // the table's name, for lists
	Types []arrow.DataType // those that the arrays may have
	Rows  int64
	// Reserve reserves memory for the arrays before it is allocated.
	Reserve func(bytes int64) (*budget.Reservation, error)
}

// StoredColumn is the values of a column on a Disk. Those that it returned belong to the caller.
type StoredColumn struct {
	Arrays    []arrow.Array
	Held      *budget.Reservation // of their memory
	Cost      time.Duration       // of decoding them
	Unchecked bool                // pages of the column had no checksum
}

// Options configure a ColumnCache.
type Options struct {
	// Budget has the idle memory, and takes it back.
	Budget *budget.Budget
	// Clock measures how long decoding takes.
	Clock func() time.Time
	// Limit is the maximum of the bytes of units.
	Limit int64
	// Disk is asked for what is not in memory, and gets what is filled; nil: there is none.
	Disk Disk
	// Lose makes units disappear at random points, for tests: a unit for which it returns true is
	// dropped before it is found or read. Nil loses none.
	Lose func(ChunkID) bool
}

// ColumnCache holds units. It is safe for concurrent use. Invariants, under mu:
//   - bytes is the sum of those of all units in units and filling, except for those that pass;
//   - order has the units of units that are not pinned;
//   - a segment that is kept belongs to a unit in units or filling.
type ColumnCache struct {
	options Options

	mu      sync.Mutex
	units   map[ChunkID]*cachedUnit
	filling map[*cachedUnit]bool // units that are not complete, or that leave with their pin
	order   byPriority
	ghosts  ghosts
	clock   float64
	bytes   int64
	stats   CacheStats
	hits    map[string]TableHits // by the table's name
}

// New makes a ColumnCache, which gives memory up when a reservation lacks room.
func New(o Options) *ColumnCache {
	c := &ColumnCache{options: o, units: map[ChunkID]*cachedUnit{}, filling: map[*cachedUnit]bool{}, hits: map[string]TableHits{}, ghosts: newGhosts(o.Limit)}
	o.Budget.OnLack(c.giveUp)
	return c
}

// Now returns the time of Options.Clock.
func (c *ColumnCache) Now() time.Time { return c.options.Clock() }

// Find returns the values of a column, pinned, or nil if they are not cached. The caller releases them.
func (c *ColumnCache) Find(ctx context.Context, of ChunkID, want Wanted) *Pinned {
	c.mu.Lock()
	var e effects
	if u := c.units[of]; u != nil && u.rows == want.Rows && !c.lost(u, &e) {
		defer c.mu.Unlock()
		return c.pin(u)
	}
	c.stats.Misses++
	c.mu.Unlock()
	c.apply(e)
	if c.options.Disk == nil {
		return nil
	}
	want.Reserve = c.reserve
	stored, ok := c.options.Disk.Get(ctx, of, want)
	if !ok {
		return nil
	}
	return c.take(of, want.Table, stored)
}

// Has reports whether a column is in memory, without using it.
func (c *ColumnCache) Has(of ChunkID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.units[of] != nil
}

// pin pins a unit. c.mu is held.
func (c *ColumnCache) pin(u *cachedUnit) *Pinned {
	if u.pins++; u.pins == 1 && u.place >= 0 {
		heap.Remove(&c.order, u.place)
	}
	u.priority = c.clock + u.rate()
	return &Pinned{cache: c, unit: u}
}

// unpin undoes pin. c.mu is held.
func (c *ColumnCache) unpin(u *cachedUnit, e *effects) {
	if u.pins--; u.pins > 0 {
		return
	}
	if c.units[u.of] == u {
		heap.Push(&c.order, u)
	} else if c.filling[u] {
		c.drop(u, e)
	}
}

// spareDivisor gives the part of the budget, 1/spareDivisor, that stays free when columns come from
// disk: they can be decoded instead.
const spareDivisor = 4

// errNotSpare is the error of a reservation for a column from disk.
var errNotSpare = errors.New("there is no memory to spare")

// reserve reserves memory for a column from disk, if the budget has it to spare.
func (c *ColumnCache) reserve(bytes int64) (*budget.Reservation, error) {
	b := c.options.Budget
	if limit := b.Limit(); limit >= 0 && b.InUse()+bytes > limit-limit/spareDivisor {
		return nil, errNotSpare
	}
	return b.Reserve("a column of the disk cache", bytes)
}

// take makes a unit of a column from disk. It is kept if there is room, and otherwise passes: it leaves
// with its pin.
func (c *ColumnCache) take(of ChunkID, table string, stored *StoredColumn) *Pinned {
	u := &cachedUnit{of: of, table: table, cost: stored.Cost, unchecked: stored.Unchecked, place: -1}
	for _, a := range stored.Arrays {
		s := &segment{cache: c, array: a, rows: int64(a.Len()), bytes: sizeOf(a), kept: true}
		u.add(s)
	}
	rest := stored.Held.Held() - u.bytes
	for i, s := range u.segments {
		if i == 0 && rest > 0 {
			s.bytes, u.bytes = s.bytes+rest, u.bytes+rest
		}
		s.held = stored.Held.Split(min(s.bytes, stored.Held.Held()))
	}
	stored.Held.Release()
	var e effects
	c.mu.Lock()
	if c.units[of] == nil && c.makeRoom(u.bytes, u.rate(), &e) {
		c.bytes += u.bytes
		c.units[of] = u
	} else {
		u.passes = true
		c.filling[u] = true
	}
	c.stats.DiskHits++
	p := c.pin(u)
	c.mu.Unlock()
	e.idle += u.bytes
	c.apply(e)
	return p
}

// lost reports whether a unit disappears, for tests, and drops it. c.mu is held.
func (c *ColumnCache) lost(u *cachedUnit, e *effects) bool {
	if c.options.Lose == nil || !c.options.Lose(u.of) {
		return false
	}
	c.drop(u, e)
	return true
}
