package chunkcache

import (
	"container/heap"
	"context"
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
	Rows  int64            // of the row group
	// From and To are the rows that a scan reads, by their numbers in the row group. A Disk has all or none.
	From, To int64
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
	// Disk is searched for columns that are not in memory, and gets columns that are filled. Nil is no disk.
	Disk Disk
	// Lose makes units disappear at random points, for tests: a unit for which it returns true is
	// dropped before it is found or read. Nil loses none.
	Lose func(ChunkID) bool
}

// ColumnCache holds units. It is safe for concurrent use. Invariants, under mu:
//   - bytes and promised are the sums of those of units, passingBytes is that of passing;
//   - order has those of units that no scan reads or fills, and filling those that scans fill;
//   - a segment that is kept belongs to a unit in units or passing, or to a fill of one.
type ColumnCache struct {
	options Options

	mu           sync.Mutex
	units        map[ChunkID]*cachedUnit
	filling      map[*cachedUnit]bool
	passing      map[ChunkID]*cachedUnit // units from disk that leave with their last pin
	order        byPriority
	ghosts       ghosts
	rates        rates
	clock        float64
	bytes        int64
	passingBytes int64
	promised     int64 // bytes that the missing rows of incomplete units are expected to take
	stats        CacheStats
	hits         map[string]TableHits // by the table's name
}

// New makes a ColumnCache, which gives memory up when a reservation lacks room.
func New(o Options) *ColumnCache {
	c := &ColumnCache{
		options: o, units: map[ChunkID]*cachedUnit{}, filling: map[*cachedUnit]bool{}, passing: map[ChunkID]*cachedUnit{},
		hits: map[string]TableHits{}, ghosts: newGhosts(o.Limit), rates: rates{},
	}
	o.Budget.OnLack(c.giveUp)
	return c
}

// Now returns the time of Options.Clock.
func (c *ColumnCache) Now() time.Time { return c.options.Clock() }

// Find returns the values of the wanted rows of a column, pinned, or nil if they are not all cached. The caller
// releases them.
func (c *ColumnCache) Find(ctx context.Context, of ChunkID, want Wanted) *Pinned {
	c.mu.Lock()
	var e effects
	for _, u := range []*cachedUnit{c.units[of], c.passing[of]} {
		if u != nil && u.rows == want.Rows && u.content.spans.cover(want.From, want.To) && !c.lost(u, &e) {
			p := c.pin(u)
			c.mu.Unlock()
			c.apply(e) // of another unit, if that was lost
			return p
		}
	}
	c.stats.Misses++
	asks := c.asksDisk(want)
	c.mu.Unlock()
	c.apply(e)
	if !asks {
		return nil
	}
	want.Reserve = c.reserve
	stored, ok := c.options.Disk.Get(ctx, of, want)
	if !ok {
		return nil
	}
	return c.take(of, want.Table, stored)
}

// Has reports whether all rows of a column are in memory, without using it.
func (c *ColumnCache) Has(of ChunkID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.units[of]
	return u != nil && u.complete()
}

// pin pins a unit. c.mu is held.
func (c *ColumnCache) pin(u *cachedUnit) *Pinned {
	if u.pins++; u.place >= 0 {
		heap.Remove(&c.order, u.place)
	}
	return &Pinned{cache: c, unit: u, spans: u.content.spans, unchecked: u.unchecked}
}

// unpin undoes pin. used is whether rows were read: a spare unit then becomes an ordinary unit, and is offered to the disk by
// the returned function, after c.mu, which is held, is unlocked.
func (c *ColumnCache) unpin(u *cachedUnit, used bool, e *effects) (offer func()) {
	offer = func() {}
	if u.pins--; c.units[u.of] != u && c.passing[u.of] != u {
		return offer
	}
	if u.spare && used {
		u.spare = false
		if u.complete() {
			c.ghosts.remove(u.of)
			offer = c.offer(u, e)
		}
	}
	c.settle(u, e)
	return offer
}

// lost reports whether a unit disappears, for tests, and drops it. c.mu is held.
func (c *ColumnCache) lost(u *cachedUnit, e *effects) bool {
	if c.options.Lose == nil || !c.options.Lose(u.of) {
		return false
	}
	c.drop(u, e)
	return true
}
