package segment

import (
	"math/bits"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/budget"
)

// minSize is the size of the smallest segment of a lender, in bytes.
const minSize = 64 << 10

// sizesPerPower is how many sizes of segments there are between two powers of two.
const sizesPerPower = 8

// maxSegments bounds the segments of a lender, each of which is an open file.
const maxSegments = 1024

// keptShare is the part of a lender's limit up to which segments keep their content instead of being
// reused. Keeping more would cost page faults, and it would rarely be read again.
const keptShare = 8

// Lender makes segments and reuses them: a new segment costs a page fault for each page that is
// written. Their number and size are bounded, and the size is reserved in a budget. A segment is reused
// only after its Loan has ended, and never if the Loan was marked by Discard. It is safe for concurrent
// use.
type Lender struct {
	budget *budget.Budget
	limit  int64 // bytes of all segments

	mu     sync.Mutex
	free   []*lendable // those that were returned first, first
	kept   []*Loan     // without a holder; those whose last holder left first, first
	count  int         // of all segments
	bytes  int64       // of all segments, free or lent
	idle   int         // how many of free have been free since the last Trim
	used   bool        // since the last Trim
	closed bool
}

// lendable is a segment of a lender.
type lendable struct {
	*Owned
	held *budget.Reservation
}

// NewLender returns a lender whose segments take at most limit bytes, which b counts. Free segments are
// closed if another reservation lacks room.
func NewLender(b *budget.Budget, limit int64) *Lender {
	d := &Lender{budget: b, limit: limit}
	b.OnPressure(d.giveUp)
	return d
}

// LenderStats has the bytes of a lender's segments: those with holders, those without a holder whose
// content is kept, and those that are free.
type LenderStats struct{ Lent, Kept, Free int64 }

// Stats returns the current bytes of segments.
func (d *Lender) Stats() LenderStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	free := int64(0)
	for _, s := range d.free {
		free += int64(len(s.Memory()))
	}
	kept := d.keptBytes()
	return LenderStats{Lent: d.bytes - free - kept, Kept: kept, Free: free}
}

// Lend returns a segment of at least size bytes, whose content is undefined. It returns nil if the
// limit or the budget leaves no room, or the system has no memory for it. The caller releases it.
func (d *Lender) Lend(size int) *Loan {
	size = rounded(size)
	if s := d.reuse(size); s != nil {
		return newLoan(d, s)
	}
	if !d.makeRoom(int64(size)) {
		return nil
	}
	s, err := d.create(size)
	if err != nil {
		d.mu.Lock()
		d.uncount(size)
		d.mu.Unlock()
		return nil
	}
	return newLoan(d, s)
}

// rounded returns the size of the segments for size bytes: a segment is at most an eighth larger.
func rounded(size int) int {
	if size <= minSize {
		return minSize
	}
	step := 1 << (bits.Len(uint(size-1)) - 1) / sizesPerPower
	return (size + step - 1) / step * step
}

// keptBytes returns the bytes of the segments that are kept without a holder. d.mu is held.
func (d *Lender) keptBytes() (n int64) {
	for _, l := range d.kept {
		n += int64(len(l.Memory()))
	}
	return n
}

// reuse takes a free segment of a size, the one that was returned last. If there is none, and enough
// memory is kept, it takes the one that has been kept for longest.
func (d *Lender) reuse(size int) *lendable {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	for i, s := range slices.Backward(d.free) {
		if len(s.Memory()) == size {
			d.remove(i)
			return s
		}
	}
	if d.keptBytes() < d.limit/keptShare {
		return nil
	}
	return d.takeKept(func(s *lendable) bool { return len(s.Memory()) == size })
}

// remove takes a segment out of free. d.mu is held.
func (d *Lender) remove(i int) {
	d.free = slices.Delete(d.free, i, i+1)
	if i < d.idle {
		d.idle--
	}
}

// makeRoom counts size bytes, and reports whether they fit. It closes segments without a holder to make
// room: free ones before kept ones, and the longest unused first.
func (d *Lender) makeRoom(size int64) bool {
	d.mu.Lock()
	dropped := d.dropWhile(func() bool { return !d.fits(size) })
	fits := d.fits(size) && !d.closed
	if fits {
		d.count, d.bytes = d.count+1, d.bytes+size
	}
	d.mu.Unlock()
	closeAll(dropped)
	return fits
}

// fits reports whether another segment is within the bounds. d.mu is held.
func (d *Lender) fits(size int64) bool { return d.bytes+size <= d.limit && d.count < maxSegments }

// uncount removes a segment of size bytes from the counts. d.mu is held.
func (d *Lender) uncount(size int) { d.count, d.bytes = d.count-1, d.bytes-int64(size) }

// dropWhile removes segments without a holder from the lender, as long as more returns true and there
// are any. The caller closes them. d.mu is held.
func (d *Lender) dropWhile(more func() bool) (dropped []*lendable) {
	for len(d.free)+len(d.kept) > 0 && more() {
		dropped = append(dropped, d.drop())
	}
	return dropped
}

// drop removes the segment that was returned first: of the free ones if there are any, otherwise of the
// kept ones. d.mu is held.
func (d *Lender) drop() (s *lendable) {
	if len(d.free) > 0 {
		s = d.free[0]
		d.remove(0)
	} else {
		s = d.takeKept(func(*lendable) bool { return true })
	}
	d.uncount(len(s.Memory()))
	return s
}

// create makes a segment, whose bytes are counted already.
func (d *Lender) create(size int) (*lendable, error) {
	held, err := d.budget.Reserve("batches in mapped memory", int64(size))
	if err != nil {
		return nil, err
	}
	s, err := New(size)
	if err != nil {
		held.Release()
		return nil, err
	}
	return &lendable{s, held}, nil
}

// giveUp closes segments without a holder until they have released the given bytes.
func (d *Lender) giveUp(bytes int64) {
	d.mu.Lock()
	enough := d.bytes - bytes
	dropped := d.dropWhile(func() bool { return d.bytes > enough })
	d.mu.Unlock()
	closeAll(dropped)
}

// closeAll closes segments, and releases their reservations.
func closeAll(dropped []*lendable) {
	for _, s := range dropped {
		_ = s.Close() // the memory is gone in any case
		s.held.Release()
	}
}

// Trim closes the segments that have been free since the previous Trim. It reports whether any was
// lent since then.
func (d *Lender) Trim() (used bool) {
	d.mu.Lock()
	dropped := d.dropWhile(func() bool { return d.idle > 0 })
	d.idle = len(d.free)
	used, d.used = d.used, false
	d.mu.Unlock()
	closeAll(dropped)
	return used
}

// Close closes all segments without a holder. Others are closed when their loans end. Lend then
// returns nil.
func (d *Lender) Close() {
	d.mu.Lock()
	d.closed = true
	dropped := d.dropWhile(func() bool { return true })
	d.mu.Unlock()
	closeAll(dropped)
}

// back takes a segment whose loan has ended, and returns it if it must be closed. d.mu is held.
func (d *Lender) back(l *Loan) (dropped []*lendable) {
	l.ended = true
	if l.discarded || d.closed {
		d.uncount(len(l.segment.Memory()))
		return []*lendable{l.segment}
	}
	d.free = append(d.free, l.segment)
	return nil
}
