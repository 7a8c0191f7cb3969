package scan

import (
	"sync"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/plan"
)

// SharedScans holds stored bytes that several scans of a stream read in the same row groups of the
// same files, at the same time or one after another. The bytes are read once and reserved once, for
// the scan that needs them first. They are held while a scan decodes their row group or an expected
// scan has still to decode it. If the memory is needed elsewhere while no scan is decoding the row
// group, the bytes are released, and read again when a scan needs them. Sharing never changes the
// rows of a scan. It is safe for concurrent use. Its owner closes it.
type SharedScans struct {
	stored *parquet.SharedChunks
	spares *spares

	mu       sync.Mutex
	expected map[string]map[*expectedRange]bool // by location
}

// expectedScan is a plan.SharedRead: a source that is to be scanned.
type expectedScan struct {
	of     *SharedScans
	ranges []*expectedRange
}

// expectedRange is a range of a file that a scan has still to read. The rows before next were read
// already.
type expectedRange struct {
	location string
	next, to int64
}

// Share makes a SharedScans.
func (s *Scanner) Share() *SharedScans {
	c := &SharedScans{spares: s.spares, expected: map[string]map[*expectedRange]bool{}}
	c.stored = parquet.NewSharedChunks(c.needed)
	c.spares.mu.Lock()
	defer c.spares.mu.Unlock()
	c.spares.shared[c] = true
	return c
}

// Expect announces a scan and returns the source to open it with. The scan counts as expected until
// the source was read to its end, or until Done is called on the source's Shared. Scans of parts of
// the source, and further scans of the source, share bytes too. A scan that begins in the middle
// counts as being past the rows before that.
func (c *SharedScans) Expect(source plan.Source) plan.Source {
	e := &expectedScan{of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range source.Files {
		if f.From == f.To {
			continue
		}
		r := &expectedRange{location: f.File.Location, next: f.From, to: f.To}
		e.ranges = append(e.ranges, r)
		if c.expected[r.location] == nil {
			c.expected[r.location] = map[*expectedRange]bool{}
		}
		c.expected[r.location][r] = true
	}
	source.Shared = e
	return source
}

// Close releases the bytes that no open scan uses. Scans may still be read; they share no bytes
// with later ones.
func (c *SharedScans) Close() {
	c.spares.mu.Lock()
	delete(c.spares.shared, c)
	c.spares.mu.Unlock()
	c.stored.Close()
}

// needed reports whether any expected scan has still to read some of the rows [from, to) of a file.
func (c *SharedScans) needed(location string, from, to int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.expected[location] {
		if max(r.next, from) < min(r.to, to) {
			return true
		}
	}
	return false
}

// chunks returns the bytes that a scan shares, or nil if it shares none.
func (e *expectedScan) chunks() *parquet.SharedChunks {
	if e == nil {
		return nil
	}
	return e.of.stored
}

// pass announces that the scan is past the rows of a file before the given one.
func (e *expectedScan) pass(location string, row int64) {
	if e == nil {
		return
	}
	e.of.advance(e.ranges, func(r *expectedRange) int64 {
		if r.location != location {
			return r.next
		}
		return row
	})
}

// Done implements plan.SharedRead.
func (e *expectedScan) Done() {
	e.of.advance(e.ranges, func(r *expectedRange) int64 { return r.to })
}

// advance moves each range forward to the row that a function returns for it, and releases the
// bytes that are no longer needed.
func (c *SharedScans) advance(ranges []*expectedRange, to func(*expectedRange) int64) {
	c.mu.Lock()
	moved := false
	for _, r := range ranges {
		row := min(to(r), r.to)
		if row <= r.next {
			continue
		}
		moved, r.next = true, row
		if row == r.to {
			delete(c.expected[r.location], r)
		}
		if len(c.expected[r.location]) == 0 {
			delete(c.expected, r.location)
		}
	}
	c.mu.Unlock()
	if moved {
		c.stored.Settle()
	}
}
