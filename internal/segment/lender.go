package segment

import (
	"math/bits"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/budget"
)

// minSize is the size of the smallest segment of a lender, in bytes.
const minSize = 64 << 10

// sizesPerPower is how many sizes of segments there are between two powers of two.
const sizesPerPower = 8

// Lender makes segments and reuses them: a new segment costs a page fault for each page that is
// written. Their total size is bounded and reserved in a budget. A segment is reused only after its
// Loan has ended, and never if the Loan was marked by Discard. It is safe for concurrent use.
type Lender struct {
	budget *budget.Budget
	limit  int64 // bytes of all segments

	mu     sync.Mutex
	free   []*lendable // those that were returned first, first
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

// LenderStats is what a lender has, in bytes.
type LenderStats struct{ Lent, Free int64 }

// Stats returns what the lender has now.
func (d *Lender) Stats() LenderStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	free := int64(0)
	for _, s := range d.free {
		free += int64(len(s.Memory()))
	}
	return LenderStats{Lent: d.bytes - free, Free: free}
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
		d.bytes -= int64(size)
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

// reuse takes a free segment of a size, the one that was returned last.
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
	return nil
}

// remove takes a segment out of free. d.mu is held.
func (d *Lender) remove(i int) {
	copy(d.free[i:], d.free[i+1:])
	d.free[len(d.free)-1] = nil
	d.free = d.free[:len(d.free)-1]
	if i < d.idle {
		d.idle--
	}
}

// makeRoom counts size bytes, and reports whether they fit. It closes free segments to make room,
// those first that were returned first.
func (d *Lender) makeRoom(size int64) bool {
	d.mu.Lock()
	var dropped []*lendable
	for d.bytes+size > d.limit && len(d.free) > 0 {
		dropped = append(dropped, d.drop())
	}
	fits := d.bytes+size <= d.limit && !d.closed
	if fits {
		d.bytes += size
	}
	d.mu.Unlock()
	closeAll(dropped)
	return fits
}

// drop takes the segment that was returned first from the lender. The caller closes it. d.mu is held.
func (d *Lender) drop() *lendable {
	s := d.free[0]
	d.remove(0)
	d.bytes -= int64(len(s.Memory()))
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

// giveUp closes free segments until they have released the given bytes.
func (d *Lender) giveUp(bytes int64) {
	d.mu.Lock()
	var dropped []*lendable
	for bytes > 0 && len(d.free) > 0 {
		s := d.drop()
		bytes -= int64(len(s.Memory()))
		dropped = append(dropped, s)
	}
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
	var dropped []*lendable
	for range d.idle {
		dropped = append(dropped, d.drop())
	}
	d.idle = len(d.free)
	used, d.used = d.used, false
	d.mu.Unlock()
	closeAll(dropped)
	return used
}

// Close closes all free segments. Others are closed when their loans end. Nothing is lent any more.
func (d *Lender) Close() {
	d.mu.Lock()
	d.closed = true
	dropped := d.free
	for _, s := range dropped {
		d.bytes -= int64(len(s.Memory()))
	}
	d.free, d.idle = nil, 0
	d.mu.Unlock()
	closeAll(dropped)
}

// back takes a segment whose loan has ended.
func (d *Lender) back(s *lendable, discard bool) {
	d.mu.Lock()
	discard = discard || d.closed
	if discard {
		d.bytes -= int64(len(s.Memory()))
	} else {
		d.free = append(d.free, s)
	}
	d.mu.Unlock()
	if discard {
		closeAll([]*lendable{s})
	}
}

// Loan is the use of a segment of a lender by several holders. It begins with one, and ends when all
// have called Release.
type Loan struct {
	lender    *Lender
	segment   *lendable
	holders   atomic.Int64
	discarded atomic.Bool
}

func newLoan(d *Lender, s *lendable) *Loan {
	l := &Loan{lender: d, segment: s}
	l.holders.Store(1)
	return l
}

// Memory returns the segment's memory. Only the code that got the loan from Lend writes to it, and
// only before the first Send.
func (l *Loan) Memory() []byte { return l.segment.Memory() }

// Send sends a message, and the segment with it, as Owned.Send does.
func (l *Loan) Send(to *net.UnixConn, message []byte) error { return l.segment.Send(to, message) }

// Retain adds a holder.
func (l *Loan) Retain() { l.holders.Add(1) }

// Release removes a holder.
func (l *Loan) Release() {
	if l.holders.Add(-1) == 0 {
		l.lender.back(l.segment, l.discarded.Load())
	}
}

// Discard marks the segment: other processes may read it for longer than the loan. It is closed when
// the loan ends, and never written to again.
func (l *Loan) Discard() { l.discarded.Store(true) }
