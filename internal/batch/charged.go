package batch

import (
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
)

// Charged is a batch with a budget reservation that lasts as long as the batch or
// any slice of it is referenced: the last Release frees the memory and then the
// reservation. It is as safe for concurrent use as other batches.
type Charged struct {
	arrow.RecordBatch
	refs   atomic.Int64
	charge *charge

	mu       sync.Mutex
	attached Attachment
}

// Attachment is a value that lives as long as a batch.
type Attachment interface{ Release() }

// charge is the reservation that a Charged, its slices and its views share.
type charge struct {
	holders atomic.Int64
	held    *budget.Reservation
	under   *charge // for a view: the charge of the batch whose memory the view also uses; otherwise nil
}

func (c *charge) release() {
	if c.holders.Add(-1) == 0 {
		c.held.Release()
		if c.under != nil {
			c.under.release()
		}
	}
}

// all calls f with the charge and those under it.
func (c *charge) all(f func(*charge)) {
	for ; c != nil; c = c.under {
		f(c)
	}
}

// NewCharged takes ownership of a batch b and of the reservation of its memory, and returns the
// batch to use instead. The caller's reference to b becomes a reference to the returned batch. The
// last release of the returned batch releases the reservation.
func NewCharged(b arrow.RecordBatch, held *budget.Reservation) *Charged {
	c := &charge{held: held}
	return c.of(b)
}

// of returns a Charged for a batch that is a new holder of the charge.
func (c *charge) of(b arrow.RecordBatch) *Charged {
	c.holders.Add(1)
	out := &Charged{RecordBatch: b, charge: c}
	out.refs.Store(1)
	return out
}

// Bytes returns the number of reserved bytes that the batch keeps.
func (c *Charged) Bytes() int64 {
	sum := int64(0)
	c.charge.all(func(one *charge) { sum += one.held.Held() })
	return sum
}

// Reserved describes a reservation that a batch keeps. Batches that keep the same reservation
// return equal IDs for it.
type Reserved struct {
	ID    any
	Bytes int64
}

// Reserved returns the reservations that the batch keeps.
func (c *Charged) Reserved() []Reserved {
	var all []Reserved
	c.charge.all(func(one *charge) { all = append(all, Reserved{one, one.held.Held()}) })
	return all
}

// MarkInFlight marks the batch as passed to the network, which will release it without further
// action by a stream.
func (c *Charged) MarkInFlight() { c.charge.all(func(one *charge) { one.held.MarkInFlight() }) }

// MarkStalled marks the batch as stalled: the network does not accept it.
func (c *Charged) MarkStalled() { c.charge.all(func(one *charge) { one.held.MarkStalled() }) }

// Share makes the reservations of the batch no longer count against a peer's share (see
// budget.Reservation). It must be called before more than one goroutine uses the batch.
func (c *Charged) Share() { c.charge.all(func(one *charge) { one.held.Share() }) }

// Retain adds a reference.
func (c *Charged) Retain() {
	c.refs.Add(1)
	c.RecordBatch.Retain()
}

// Release drops a reference.
func (c *Charged) Release() {
	last := c.refs.Add(-1) == 0
	c.RecordBatch.Release()
	if last {
		if c.attached != nil {
			c.attached.Release()
			c.attached = nil
		}
		c.charge.release()
	}
}

// Attach calls renew with the value that is attached to the batch, or nil if there is none, and
// attaches the value that renew returns. If renew returns another value, it must have released the
// first. Other calls of Attach wait meanwhile. The last Release of the batch releases the attached
// value. The caller must have a reference to the batch.
func (c *Charged) Attach(renew func(Attachment) Attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached = renew(c.attached)
}

// View takes ownership of a batch b that uses memory of this batch, and returns the batch to use
// instead of b. That batch shares the reservation. If b also has memory of its own, own is the
// reservation of that memory, of which View takes ownership, too; otherwise own is nil.
func (c *Charged) View(b arrow.RecordBatch, own *budget.Reservation) *Charged {
	if own == nil {
		return c.charge.of(b)
	}
	c.charge.holders.Add(1)
	over := &charge{held: own, under: c.charge}
	return over.of(b)
}

// NewSlice returns rows [i, j) of the batch. The slice shares the reservation.
func (c *Charged) NewSlice(i, j int64) arrow.RecordBatch {
	return c.charge.of(c.RecordBatch.NewSlice(i, j))
}
