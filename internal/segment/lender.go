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

// maxSegments bounds the number of segments of a lender. Each segment is an open file.
const maxSegments = 1024

// keptShare determines how much content is kept: segments without a holder keep their content as
// long as they take at most 1/keptShare of the lender's limit; above that, they are reused. Keeping
// more would cost page faults for new segments, and the content would rarely be read again.
const keptShare = 8

// Lender creates segments and reuses them, since writing to a new segment costs a page fault for
// each page. The number of segments and their total size are bounded, and their size is reserved in
// a budget. A segment is reused only after its Loan has ended, and never if the Loan was marked by
// Discard. It is safe for concurrent use.
type Lender struct {
	budget *budget.Budget
	limit  int64 // maximum bytes of all segments

	mu     sync.Mutex
	free   []*lendable // segments without a loan, in the order in which they were returned
	kept   []*Loan     // loans without a holder whose content is kept, in the order in which their last holders left
	count  int         // number of all segments
	bytes  int64       // size of all segments, free, kept or lent
	idle   int         // how many of free have been free since the last Trim
	used   bool        // whether Lend was called since the last Trim
	closed bool
}

// lendable is a segment of a lender.
type lendable struct {
	*Owned
	held *budget.Reservation
}

// NewLender returns a lender whose segments take at most limit bytes. The bytes are reserved in b.
// If another reservation lacks room, segments without a holder are closed.
func NewLender(b *budget.Budget, limit int64) *Lender {
	d := &Lender{budget: b, limit: limit}
	b.OnPressure(d.giveUp)
	return d
}

// LenderStats has the bytes of a lender's segments: of segments with holders (Lent), of segments
// without a holder whose content is kept (Kept), and of free segments (Free).
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
// limit or the budget leaves no room, or the system has no memory for it. The caller releases the
// loan.
func (d *Lender) Lend(size int) *Loan {
	size = rounded(size)
	if s := d.reuse(size); s != nil {
		return newLoan(d, s)
	}
	if s := d.makeNew(size, New); s != nil {
		return newLoan(d, s)
	}
	return nil
}

// LendWritable returns a new segment of size bytes, all zero, to which its receivers can write. The
// segment is closed when its loan ends. LendWritable returns nil in the same cases as Lend.
func (d *Lender) LendWritable(size int) *Loan {
	s := d.makeNew(size, NewWritable)
	if s == nil {
		return nil
	}
	l := newLoan(d, s)
	l.discarded = true // receivers may write to it at any time
	return l
}

// makeNew makes a segment within the bounds. It returns nil if there is no room.
func (d *Lender) makeNew(size int, create func(size int) (*Owned, error)) *lendable {
	if !d.makeRoom(int64(size)) {
		return nil
	}
	s, err := d.create(size, create)
	if err != nil {
		d.mu.Lock()
		d.uncount(size)
		d.mu.Unlock()
		return nil
	}
	return s
}

// rounded returns the size of the segment that is used for size bytes. It is at most an eighth
// larger than size.
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

// reuse takes a free segment of the given size: the one that was returned last. If there is none,
// and segments that keep their content take at least 1/keptShare of the limit, it takes the segment
// of this size that has been kept for longest.
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

// makeRoom counts a new segment of size bytes, and reports whether it fits. To make room, it closes
// segments without a holder: free segments before kept segments, and of each kind those that have
// been unused for longest first.
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

// dropWhile removes segments without a holder from the lender, as long as more returns true and
// there are such segments. The caller, which holds d.mu, closes the removed segments after it has
// unlocked d.mu.
func (d *Lender) dropWhile(more func() bool) (dropped []*lendable) {
	for len(d.free)+len(d.kept) > 0 && more() {
		dropped = append(dropped, d.drop())
	}
	return dropped
}

// drop removes the free segment that was returned first or, if there are no free segments, the
// segment that has been kept for longest. d.mu is held.
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

// create creates a segment. Its bytes must have been counted before.
func (d *Lender) create(size int, create func(size int) (*Owned, error)) (*lendable, error) {
	held, err := d.budget.Reserve("batches in mapped memory", int64(size))
	if err != nil {
		return nil, err
	}
	s, err := create(size)
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

// Trim closes the segments that have been free since the previous Trim. It reports whether Lend was
// called since then.
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

// back ends a loan. It makes the loan's segment free, or returns the segment if the caller must
// close it. d.mu is held.
func (d *Lender) back(l *Loan) (dropped []*lendable) {
	l.ended = true
	if l.discarded || d.closed {
		d.uncount(len(l.segment.Memory()))
		return []*lendable{l.segment}
	}
	d.free = append(d.free, l.segment)
	return nil
}
