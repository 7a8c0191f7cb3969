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
	Type     string // text that identifies the type that the reader returns
}

// Disk is a slower tier, which outlives the process.
type Disk interface {
	// Get returns the values of a column if the disk has them. It reports no failures: if it
	// returns no values, the column is decoded instead.
	Get(ctx context.Context, of ChunkID, want Wanted) (*StoredColumn, bool)
	// Put offers values to the disk. It retains their arrays until it calls done, which it does
	// exactly once. values.Held is nil.
	Put(of ChunkID, values StoredColumn, done func())
}

// Wanted describes the values of a column that a scan looks for.
type Wanted struct {
	Table string           // the table's name, for lists
	Types []arrow.DataType // the types that the arrays may have
	Rows  int64            // of the row group
	// From and To are the rows that a scan reads, by their numbers in the row group. A Disk always
	// has all rows of the row group or none.
	From, To int64
	// Reserve reserves memory for the arrays, before the memory is allocated.
	Reserve func(bytes int64) (*budget.Reservation, error)
}

// StoredColumn is the values of a column on a Disk. Values that a Disk returned belong to the
// caller.
type StoredColumn struct {
	Arrays    []arrow.Array
	Held      *budget.Reservation // reservation of the arrays' memory
	Cost      time.Duration       // time that decoding the values took
	Unchecked bool                // pages of the column had no checksum
}

// Options configure a ColumnCache.
type Options struct {
	// Budget counts the memory of unused units as idle, and takes it back when needed.
	Budget *budget.Budget
	// Clock measures how long decoding takes.
	Clock func() time.Time
	// Limit is the maximum total size of all units, in bytes.
	Limit int64
	// Disk is searched for columns that are not in memory, and is offered the columns that scans
	// have filled. Nil means no disk.
	Disk Disk
	// Lose makes units disappear at random points, for tests: a unit for which it returns true is
	// dropped before it is found or read. Nil loses none.
	Lose func(ChunkID) bool
}

// ColumnCache holds units. It is safe for concurrent use. Invariants, under mu:
//   - bytes and promised are sums over the units in units, and passingBytes is the sum over passing;
//   - order has the units that no scan reads or fills, and filling has the units that scans fill;
//   - a kept segment belongs to a unit in units or passing, or to a fill of such a unit.
type ColumnCache struct {
	options Options

	mu           sync.Mutex
	units        map[ChunkID]*cachedUnit
	filling      map[*cachedUnit]bool
	passing      map[ChunkID]*cachedUnit // units from disk that are dropped with their last pin
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

// New makes a ColumnCache, which releases memory when a reservation of the budget lacks room.
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
			c.apply(e) // of a unit that was lost
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

// Has reports whether all rows of a column are in memory. It does not count as a use of the column.
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

// unpin undoes pin. used is whether rows were read. If so, a spare unit becomes an ordinary unit,
// and the returned function offers it to the disk. c.mu is held; the caller calls the function
// after it has unlocked c.mu.
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

// lost asks Options.Lose, for tests, whether a unit disappears, and if so drops it and returns
// true. c.mu is held.
func (c *ColumnCache) lost(u *cachedUnit, e *effects) bool {
	if c.options.Lose == nil || !c.options.Lose(u.of) {
		return false
	}
	c.drop(u, e)
	return true
}
