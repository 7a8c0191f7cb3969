package chunkcache

import (
	"container/heap"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// Filling describes the rows of a column that a scan is about to decode.
type Filling struct {
	Column   ChunkID
	Table    string // the table's name, for lists
	Rows     int64  // of the row group
	From, To int64  // the rows that the scan decodes, by their numbers in the row group
	// Repeated is whether the column is known to be read again. If so, the first scan fills the
	// cache; otherwise the second scan does.
	Repeated bool
	// Spare is whether the first scan fills the cache with a spare unit: the unit uses only free
	// room, and only until something else needs that room.
	Spare bool
}

// Fill takes the arrays of a column as a scan decodes them. It is used by one goroutine.
type Fill struct {
	cache        *ColumnCache
	unit         *cachedUnit
	from, at, to int64 // row numbers: the first row, the next array's first row, and the row after the last
	ended        bool
	codes        codesView  // view of the last array's dictionary
	segments     []*segment // guarded by ColumnCache.mu
	adding       tally      // guarded likewise: counted in the unit's total, for an array that is not in segments yet
}

// Fill begins to add rows of a column to the cache. It returns nil if the admission rule does not
// allow the column yet, if the cache has these rows, or if another scan is adding exactly these
// rows. The caller commits or abandons the Fill.
func (c *ColumnCache) Fill(of Filling) *Fill {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, known := c.units[of.Column]
	switch {
	case !known:
		rule := c.ghosts.read(of.Column, of.To-of.From, of.Rows) || of.Repeated
		if !rule && !of.Spare {
			return nil
		}
		u = &cachedUnit{of: of.Column, table: of.Table, rows: of.Rows, place: -1, spare: !rule}
		c.units[of.Column] = u
	case u.rows != of.Rows || u.content.spans.cover(of.From, of.To):
		return nil
	case slices.ContainsFunc(u.fills, func(f *Fill) bool { return f.from == of.From && f.to == of.To }):
		return nil
	case u.place >= 0:
		heap.Remove(&c.order, u.place)
	}
	if known && u.spare {
		u.spare = !c.ghosts.read(of.Column, of.To-of.From, of.Rows) && !of.Repeated
	}
	f := &Fill{cache: c, unit: u, from: of.From, at: of.From, to: of.To}
	u.fills = append(u.fills, f)
	c.filling[u] = true
	return f
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
	// Copy returns a copy of an array (the dictionary of codes) and a reservation of the copy's
	// memory. It returns nil if there is no memory.
	Copy func(arrow.Array) (arrow.Array, *budget.Reservation)
}

// Add adds the array of the next rows, and returns a view to use instead, which the caller
// releases. It returns nil if the cache has the rows, if there is no room, or if the memory was
// needed elsewhere. The array and its memory then still belong to the caller.
func (f *Fill) Add(d Decoded) arrow.Array {
	rows := int64(d.Array.Len())
	from := f.at
	f.at += rows
	values, coded := d.Array, batch.IsCoded(d.Array)
	if coded {
		if !f.lacks(from, f.at) || !f.shareDictionary(d) {
			return nil
		}
		values = codesOf(d.Array)
		defer values.Release()
	}
	s := &segment{cache: f.cache, array: values, coded: coded, from: from, tally: tally{rows: rows, bytes: sizeOf(values), cost: d.Took}, views: 1}
	if f.ended || !f.reserve(s, d.Unchecked) {
		return nil
	}
	if s.held = d.Charge(s.bytes); s.held == nil {
		f.refund(s)
		f.Abandon()
		return nil
	}
	values.NullN() // counts nulls now, since several views must not do so concurrently
	values.Retain()
	f.keep(s)
	view := s.wrap()
	if !coded {
		return view
	}
	defer view.Release()
	return withDictionary(view, f.codes.view)
}

// keep adds an array and its memory to the fill, unless the unit was dropped.
func (f *Fill) keep(s *segment) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.adding = tally{}
	if f.isCurrent() {
		s.kept = true
		f.segments = append(f.segments, s)
	}
}

// isCurrent reports whether the unit was not dropped since the fill began. c.mu is held.
func (f *Fill) isCurrent() bool { return f.cache.units[f.unit.of] == f.unit }

// reserve makes room for an array and reports whether the cache takes the array. If there is no
// room, the unit is dropped unless a scan is reading it, because it would not become complete.
func (f *Fill) reserve(s *segment, unchecked bool) bool {
	c, u := f.cache, f.unit
	var e effects
	c.mu.Lock()
	defer func() {
		c.mu.Unlock()
		c.apply(e)
	}()
	if f.ended = !f.isCurrent(); f.ended || u.content.spans.cover(s.from, s.end()) {
		return false
	}
	total := u.content.total
	total.add(s.tally)
	promised := u.promise(total)
	c.rates.add(u.of, s.tally)
	if !f.makeRoom(s.bytes+promised-u.promised, total, &e) {
		return false
	}
	u.unchecked = u.unchecked || unchecked
	c.count(u, s.tally, tally{})
	f.adding = s.tally
	return true
}

// makeRoom makes room for more bytes and reports whether it succeeded. total is the unit's total
// including these bytes. If there is no room, the fill ends, and the unit is dropped unless a scan
// is reading it. c.mu is held.
func (f *Fill) makeRoom(bytes int64, total tally, e *effects) bool {
	c, u := f.cache, f.unit
	rate := c.rates.of(u.of, total)
	if u.spare && c.hasSpare(bytes) || !u.spare && c.makeRoom(bytes, rate, e) {
		return true
	}
	f.ended = true
	if u.pins == 0 {
		c.drop(u, e)
	}
	if !u.spare {
		c.pass(u.scaled(total, f.to-f.from), rate)
	}
	return false
}

// refund undoes reserve for an array for which there was no memory.
func (f *Fill) refund(s *segment) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.adding = tally{}
	if f.isCurrent() {
		f.cache.count(f.unit, tally{}, s.tally)
	}
}

// count adds and subtracts arrays in a unit's total, and updates the bytes that the unit's missing
// rows are expected to take. c.mu is held.
func (c *ColumnCache) count(u *cachedUnit, more, less tally) {
	u.content.total.add(more)
	u.content.total.remove(less)
	promised := u.promise(u.content.total)
	c.bytes += more.bytes - less.bytes
	c.promised += promised - u.promised
	u.promised = promised
}

// Commit makes the rows that were added available, provided that all of the scan's rows were passed
// to Add.
func (f *Fill) Commit() { f.end(f.at == f.to) }

// Abandon ends the fill without a result. It is idempotent, and does nothing after Commit.
func (f *Fill) Abandon() { f.end(false) }

func (f *Fill) end(keep bool) {
	f.codes.end()
	c, u := f.cache, f.unit
	var e effects
	c.mu.Lock()
	at := slices.Index(u.fills, f)
	if at < 0 || !f.isCurrent() {
		c.mu.Unlock()
		return
	}
	u.fills = slices.Delete(u.fills, at, at+1)
	was := u.complete()
	for _, s := range f.segments {
		needless := []*segment{s}
		if keep {
			needless = u.insert(s)
		}
		for _, one := range needless {
			c.count(u, tally{}, one.tally)
			one.release(&e)
		}
	}
	f.segments, f.ended = nil, true
	filled := !was && u.complete()
	if filled {
		c.stats.Filled++
		if !u.spare { // a spare unit keeps its ghost: the next scan may be the second one
			c.ghosts.remove(u.of)
		}
	}
	if u.pins == 0 && u.repeated() > u.rows/maxRepeated {
		c.drop(u, &e)
	} else {
		c.settle(u, &e)
	}
	offer := func() {}
	if filled && !u.spare && f.isCurrent() {
		offer = c.offer(u, &e)
	}
	c.mu.Unlock()
	c.apply(e)
	offer()
}

// settle updates the lists of units after a scan has stopped filling or reading a unit. If the unit
// is now unused, settle drops it or lists it for eviction. c.mu is held.
func (c *ColumnCache) settle(u *cachedUnit, e *effects) {
	c.count(u, tally{}, tally{})
	if len(u.fills) == 0 {
		delete(c.filling, u)
	}
	switch {
	case u.busy():
	case !u.has() || u.passes:
		c.drop(u, e)
	case u.place < 0:
		if u.priority = c.clock + c.rates.of(u.of, u.content.total); u.spare {
			u.priority = 0
		}
		heap.Push(&c.order, u)
	}
}
