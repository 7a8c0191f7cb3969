package segment

import (
	"net"
	"slices"
)

// Loan is the use of a segment of a lender by one or more holders. It begins with one holder. When
// all holders have called Release, it ends or, after Keep, keeps the segment's content. A kept loan
// can get holders again until the lender needs the segment:
//
//	       Release of the last         Lend needs it, or Unkeep
//	held ───────────────────────► kept ────────────────────────► ended
//	  ▲                            │
//	  └────────────────────────────┘
//	             Revive
//
// Without Keep, the last Release ends the loan.
type Loan struct {
	lender  *Lender
	segment *lendable

	// Guarded by lender.mu.
	holders   int
	keep      bool // whether the content is kept after the last Release, until the lender needs the segment
	discarded bool
	ended     bool
}

func newLoan(d *Lender, s *lendable) *Loan { return &Loan{lender: d, segment: s, holders: 1} }

// Memory returns the segment's memory. Only the code that got the loan from Lend may write to this
// memory, and only before the first Send.
func (l *Loan) Memory() []byte { return l.segment.Memory() }

// Send sends a message together with the segment (see Owned.Send).
func (l *Loan) Send(to *net.UnixConn, message []byte) error { return l.segment.Send(to, message) }

// Retain adds a holder. The caller must be a holder.
func (l *Loan) Retain() {
	l.lender.mu.Lock()
	defer l.lender.mu.Unlock()
	l.holders++
}

// Release removes a holder.
func (l *Loan) Release() {
	d := l.lender
	d.mu.Lock()
	var dropped []*lendable
	if l.holders--; l.holders == 0 {
		if l.keep && !l.discarded && !d.closed {
			d.kept = append(d.kept, l)
		} else {
			dropped = d.back(l)
		}
	}
	d.mu.Unlock()
	closeAll(dropped)
}

// Keep makes the segment keep its content after the last Release, until Unkeep is called or the
// lender needs the segment. The caller must be a holder.
func (l *Loan) Keep() {
	l.lender.mu.Lock()
	defer l.lender.mu.Unlock()
	l.keep = true
}

// Unkeep ends the effect of Keep.
func (l *Loan) Unkeep() {
	d := l.lender
	d.mu.Lock()
	var dropped []*lendable
	l.keep = false
	if d.unkept(l) {
		dropped = d.back(l)
	}
	d.mu.Unlock()
	closeAll(dropped)
}

// Revive adds a holder to a loan whose content is kept. It returns false if the content is no
// longer kept.
func (l *Loan) Revive() bool {
	l.lender.mu.Lock()
	defer l.lender.mu.Unlock()
	if l.ended {
		return false
	}
	l.lender.unkept(l)
	l.holders++
	return true
}

// Discard marks the segment because other processes may read it even after the loan has ended. A
// marked segment is closed when its loan ends, and never written to again.
func (l *Loan) Discard() {
	l.lender.mu.Lock()
	defer l.lender.mu.Unlock()
	l.discarded = true
}

// unkept removes a loan from d.kept, and reports whether the loan was there. d.mu is held.
func (d *Lender) unkept(l *Loan) bool {
	i := slices.Index(d.kept, l)
	if i >= 0 {
		d.kept = slices.Delete(d.kept, i, i+1)
	}
	return i >= 0
}

// takeKept ends the loan that has been kept for longest among the kept loans whose segments match,
// and returns its segment. It returns nil if there is no such loan. d.mu is held.
func (d *Lender) takeKept(matches func(*lendable) bool) *lendable {
	for i, l := range d.kept {
		if matches(l.segment) {
			d.kept = slices.Delete(d.kept, i, i+1)
			l.ended = true
			return l.segment
		}
	}
	return nil
}
