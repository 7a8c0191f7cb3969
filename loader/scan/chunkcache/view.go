package chunkcache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// ErrGone is the error of reading a unit that the cache has dropped since the unit was found.
var ErrGone = errors.New("a cached column was given up")

// Pinned is a unit that a scan reads, from the row group's first row on. It is used by one goroutine at a time.
type Pinned struct {
	cache     *ColumnCache
	unit      *cachedUnit
	spans     rowSpans        // spans from the one that has the next row
	row       int64           // the next row
	codes     arrow.ArrayData // a view of the unit's dictionary; nil: no codes were read
	unchecked bool
	used      bool
	released  bool
	last      LastRead
}

// LastRead describes an array that a Pinned returned.
type LastRead struct {
	Bytes  int64
	Saved  time.Duration // the time that decoding it took
	Copied bool          // whether it is a copy of several arrays, not a view
	First  bool          // whether it is the first array that its Pinned returned
}

const (
	// shortRows and shortBytes bound the arrays that Read joins into one array. An array that has
	// more rows or bytes is returned as a view.
	shortRows, shortBytes = 1 << 10, 256 << 10
)

// Unchecked reports whether pages of the column had no checksum.
func (p *Pinned) Unchecked() bool { return p.unchecked }

// Rows returns the maximum number of rows that Read can return now: the rest of the next array and,
// if that is short, some rows of the arrays after it. It returns 0 if the next row is not cached.
// Short arrays are joined because batches end where arrays of their columns end: otherwise, batches
// and the arrays that are decoded with them would become shorter whenever a column is filled again.
func (p *Pinned) Rows() int64 {
	rows, bytes := p.inFirst(), int64(0)
	for i := 1; 0 < rows && rows < shortRows && i < len(p.spans) && p.spans[i].from == p.row+rows && p.spans[i].segment.coded == p.spans[0].segment.coded; i++ {
		bytes += p.spans[i-1].segment.bytesOf(rows - max(p.spans[i-1].from-p.row, 0))
		more := min(p.spans[i].to-p.spans[i].from, shortRows-rows)
		for more > 0 && bytes+p.spans[i].segment.bytesOf(more) > shortBytes {
			more /= 2
		}
		if rows += more; more < p.spans[i].to-p.spans[i].from {
			break
		}
	}
	return rows
}

// inFirst returns how many of the next rows are in the next array.
func (p *Pinned) inFirst() int64 {
	if len(p.spans) == 0 || p.row < p.spans[0].from {
		return 0
	}
	return p.spans[0].to - p.row
}

// bytesOf estimates the bytes of a number of the segment's rows.
func (s *segment) bytesOf(rows int64) int64 {
	return int64(float64(s.bytes) * float64(rows) / float64(s.rows))
}

// LastRead describes the array that was read last.
func (p *Pinned) LastRead() LastRead { return p.last }

// Skip skips rows.
func (p *Pinned) Skip(rows int64) {
	p.row += rows
	for len(p.spans) > 0 && p.spans[0].to <= p.row {
		p.spans = p.spans[1:]
	}
}

// Read returns the next rows, at most Rows, as an array that the caller releases. The array is a
// view, or a copy in memory from mem if the rows are in several arrays. Read fails with ErrGone if
// the unit was dropped.
func (p *Pinned) Read(rows int64, mem memory.Allocator) (arrow.Array, error) {
	if p.Rows() == 0 || rows > p.Rows() {
		return nil, ErrGone // the unit has fewer rows than were asked for
	}
	p.last = LastRead{First: !p.used}
	coded := p.spans[0].segment.coded
	out, err := p.join(rows, mem)
	if err != nil || !coded {
		return out, err
	}
	defer out.Release()
	return withDictionary(out, p.codes), nil
}

// join returns the next rows as one array, without their dictionary.
func (p *Pinned) join(rows int64, mem memory.Allocator) (arrow.Array, error) {
	if rows <= p.inFirst() {
		return p.view(rows)
	}
	var parts []batch.Segment
	defer func() {
		for _, one := range parts {
			one.Values.Release()
		}
	}()
	for left := rows; left > 0; {
		one, err := p.view(min(left, p.inFirst()))
		if err != nil {
			return nil, err
		}
		parts = append(parts, batch.Segment{Values: one, Rows: one.Len()})
		left -= int64(one.Len())
	}
	p.last.Copied = true
	return batch.Gather(parts[0].Values.DataType(), parts, mem)
}

// view returns a view of the next rows, which must be in one array. The view lacks the dictionary;
// if the rows are codes, p.codes is then a view of the dictionary.
func (p *Pinned) view(rows int64) (arrow.Array, error) {
	c, s := p.cache, p.spans[0].segment
	var e effects
	c.mu.Lock()
	if !s.kept || c.lost(p.unit, &e) {
		c.mu.Unlock()
		c.apply(e)
		return nil, ErrGone
	}
	s.view(&e)
	var dictionary *segment
	if s.coded && p.codes == nil {
		dictionary = p.unit.content.dictionary
		dictionary.view(&e)
	}
	bytes, saved := c.hit(p.unit, !p.used, rows)
	p.last.Bytes, p.last.Saved = p.last.Bytes+bytes, p.last.Saved+saved
	p.used = true
	c.mu.Unlock()
	c.apply(e)
	if dictionary != nil {
		p.codes = dictionary.wrapped()
	}
	whole := s.wrap()
	from := p.row - s.from
	p.Skip(rows)
	if rows == int64(whole.Len()) {
		return whole, nil
	}
	defer whole.Release()
	return array.NewSlice(whole, from, from+rows), nil
}

// Release ends the pin. Views stay valid. It is idempotent.
func (p *Pinned) Release() {
	if p.released {
		return
	}
	p.released = true
	if p.codes != nil {
		p.codes.Release()
	}
	var e effects
	p.cache.mu.Lock()
	offer := p.cache.unpin(p.unit, p.used, &e)
	p.cache.mu.Unlock()
	p.cache.apply(e)
	offer()
}

// viewLease counts the buffers of a view of a segment. It acts as the buffers' allocator, so that
// Free tells it when the last buffer is released.
type viewLease struct {
	segment *segment
	buffers atomic.Int64
}

// wrap returns an array over the memory of a segment that has a view for it. The view ends when the
// last reference to any of the array's buffers is released.
func (s *segment) wrap() arrow.Array {
	data := s.wrapped()
	defer data.Release()
	return array.MakeFromData(data)
}

// wrapped is like wrap, but returns only the array's data.
func (s *segment) wrapped() arrow.ArrayData {
	l := &viewLease{segment: s}
	l.buffers.Store(1) // of wrapped itself
	defer l.Free(nil)
	return l.wrap(s.array.Data())
}

func (l *viewLease) wrap(data arrow.ArrayData) arrow.ArrayData {
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b != nil {
			l.buffers.Add(1)
			buffers[i] = memory.NewBufferWithAllocator(b.Bytes(), l)
			defer buffers[i].Release()
		}
	}
	children := make([]arrow.ArrayData, len(data.Children()))
	for i, child := range data.Children() {
		children[i] = l.wrap(child)
		defer children[i].Release()
	}
	return array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
}

// Free implements memory.Allocator: a buffer of the view is no longer used.
func (l *viewLease) Free([]byte) {
	if l.buffers.Add(-1) > 0 {
		return
	}
	var e effects
	c := l.segment.cache
	c.mu.Lock()
	l.segment.endView(&e)
	c.mu.Unlock()
	c.apply(e)
}

// Allocate implements memory.Allocator. Buffers of views are not mutable, and never grow.
func (*viewLease) Allocate(size int) []byte { return make([]byte, size) }

// Reallocate implements memory.Allocator, likewise.
func (*viewLease) Reallocate(size int, b []byte) []byte {
	out := make([]byte, size)
	copy(out, b)
	return out
}
