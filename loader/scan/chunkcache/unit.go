package chunkcache

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// cachedUnit is rows of a column of a row group. Its fields are guarded by ColumnCache.mu, except for those of
// segments that say so.
type cachedUnit struct {
	of       ChunkID
	table    string // name, for lists
	rows     int64  // of the row group
	content  unitContent
	fills    []*Fill // the fills of scans that are adding rows
	promised int64   // bytes that the missing rows are expected to take
	priority float64
	pins     int
	place    int // in ColumnCache.order; -1: it is not there
	hits     int64
	// unchecked is whether pages of it had no checksum.
	unchecked bool
	spare     bool // it uses only room that nothing else needs; it becomes an ordinary unit when a scan reads it
	passes    bool // it came from disk, is dropped with its last pin, and does not count as cached
}

// unitContent is what a unit has.
type unitContent struct {
	spans    rowSpans
	segments []*segment // of the spans
	// dictionary has the values for the codes of all segments that have codes. It is kept as long
	// as the unit. Nil means that no segment has codes.
	dictionary *segment
	covered    int64 // rows of the spans
	total      tally // sum of the segments, the arrays of fills, and the dictionary
}

// segment is an array of a unit, or its dictionary, with its memory.
type segment struct {
	cache *ColumnCache
	array arrow.Array // invalid once it is freed; has only codes if the rows are coded
	coded bool
	from  int64 // number of its first row in the row group
	tally
	held *budget.Reservation

	// Guarded by ColumnCache.mu. The segment is idle while it is kept and has no views. It is freed
	// when it is no longer kept and has no views.
	views int
	kept  bool
}

// end returns the row after the last one.
func (s *segment) end() int64 { return s.from + s.rows }

const (
	// At most 1/maxRepeated of a row group's rows may be in more than one array of a unit. If there
	// are more, the unit is dropped.
	maxRepeated = 2
	// tellingRows is the minimum number of rows for an estimate of a column's bytes: arrays of
	// fewer rows have much unused memory. For small row groups, the minimum is the row group's rows
	// divided by tellingDivisor.
	tellingRows, tellingDivisor = 4 << 10, 8
)

// scaled returns the bytes that a number of rows of the row group take, as far as is known.
func (u *cachedUnit) scaled(t tally, rows int64) int64 {
	return int64(float64(t.bytes-t.fixed) * float64(rows) / float64(max(t.rows, min(tellingRows, u.rows/tellingDivisor), 1)))
}

// promise estimates the bytes that the unit's missing rows will take, given the tally of the arrays
// that it has.
func (u *cachedUnit) promise(t tally) int64 {
	if u.complete() || t.rows == 0 {
		return 0
	}
	return max(u.scaled(t, u.rows)-(t.bytes-t.fixed), 0)
}

// complete reports whether the unit has all rows.
func (u *cachedUnit) complete() bool { return u.content.covered == u.rows }

// has reports whether the unit has any row.
func (u *cachedUnit) has() bool { return u.content.covered > 0 }

// busy reports whether a scan reads the unit or adds to it.
func (u *cachedUnit) busy() bool { return u.pins > 0 || len(u.fills) > 0 }

// insert adds the rows of a segment that the unit lacks, and returns the segments that are then
// needless. If the unit lacks no row, that is the given segment itself. Otherwise, these are the
// segments whose rows are all in the given segment, unless a scan may be reading them.
func (u *cachedUnit) insert(s *segment) (needless []*segment) {
	c := &u.content
	if c.spans.cover(s.from, s.end()) {
		return []*segment{s}
	}
	within := func(one *segment) bool { return u.pins == 0 && one.from >= s.from && one.end() <= s.end() }
	before, segments := make(rowSpans, 0, len(c.spans)), []*segment{s}
	for _, one := range c.spans {
		if !within(one.segment) {
			before = append(before, one)
		}
	}
	for _, one := range c.segments {
		if within(one) {
			needless = append(needless, one)
		} else {
			segments = append(segments, one)
		}
	}
	c.spans, c.segments = before.with(s), segments
	c.covered = c.spans.rows()
	return needless
}

// repeated returns how many rows the segments have in excess because some rows are in several
// segments.
func (u *cachedUnit) repeated() (rows int64) {
	for _, s := range u.content.segments {
		rows += s.rows
	}
	return rows - u.content.covered
}

// arrays returns all segments: those of the unit, those of its fills, and the dictionary.
func (u *cachedUnit) arrays() []*segment {
	all := slices.Clone(u.content.segments)
	if u.content.dictionary != nil {
		all = append(all, u.content.dictionary)
	}
	for _, f := range u.fills {
		all = append(all, f.segments...)
	}
	return all
}

func sizeOf(a arrow.Array) int64 { return max(batch.ArraySize(a), 1) }

// effects is work that a change under ColumnCache.mu leaves to be done after the mutex is unlocked.
type effects struct {
	idle  int64 // change of the idle bytes
	freed []*segment
}

// apply applies effects. c.mu is not held. Bytes count as idle until they are really free, because
// no waiting stream fails while there are idle bytes.
func (c *ColumnCache) apply(e effects) {
	for _, s := range e.freed {
		s.array.Release()
		s.held.Release()
	}
	c.options.Budget.AddIdle(e.idle)
}

// view adds a view to a segment. c.mu is held.
func (s *segment) view(e *effects) {
	if s.views++; s.views == 1 && s.kept {
		e.idle -= s.bytes
	}
}

// endView undoes view. c.mu is held.
func (s *segment) endView(e *effects) {
	if s.views--; s.views > 0 {
		return
	}
	if s.kept {
		e.idle += s.bytes
	} else {
		e.freed = append(e.freed, s)
	}
}

// release ends the cache's own use of a segment. c.mu is held.
func (s *segment) release(e *effects) {
	s.kept = false
	if s.views == 0 {
		e.idle -= s.bytes
		e.freed = append(e.freed, s)
	}
}
