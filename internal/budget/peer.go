package budget

import (
	"context"
	"sync/atomic"
)

// peer is what the streams of one client host have together, apart from what
// streams share: build sides, footers.
type peer struct {
	held atomic.Int64

	// Under the queue's mu.
	open    int // streams that have entered and not left
	blocked int // of these: those that wait
}

// join counts a stream of a peer. q.mu is held.
func (q *queue) join(from string) *peer {
	p := q.peers[from]
	if p == nil {
		p = &peer{}
		if q.peers == nil {
			q.peers = map[string]*peer{}
		}
		q.peers[from] = p
	}
	p.open++
	q.count()
	return p
}

// part undoes join. q.mu is held.
func (q *queue) part(from string) {
	q.peers[from].open--
	q.count()
}

// count counts the peers that have streams, and forgets those that have nothing:
// batches on their way outlive their streams. q.mu is held.
func (q *queue) count() {
	open := 0
	for from, p := range q.peers {
		switch {
		case p.open > 0:
			open++
		case p.held.Load() == 0:
			delete(q.peers, from)
		}
	}
	q.several.Store(open > 1)
}

// ReserveFor opens a reservation that counts against the share of the peer whose
// stream ctx is of; without such a stream it is as Reserve.
func (b *Budget) ReserveFor(ctx context.Context, what string, n int64) (*Reservation, error) {
	r := &Reservation{budget: b, what: what}
	if s, _ := ctx.Value(streamKey{}).(*stream); s != nil && s.budget == b {
		r.peer = s.peer
	}
	if err := r.Grow(n); err != nil {
		return nil, err
	}
	return r, nil
}

// shares says whether the share of a peer has n bytes more. Who holds nothing
// may have anything.
func (b *Budget) shares(p *peer, n int64) bool {
	if p == nil || b.share == 0 || n <= 0 || !b.queue.several.Load() {
		return true
	}
	held := p.held.Load()
	return held == 0 || held+n <= b.share
}

// tryTake adds n bytes to those in use, and to the peer's, if there is room.
func (r *Reservation) tryTake(n int64) bool {
	if r.peer == nil {
		return r.budget.tryReserve(n, r.leaves)
	}
	for held := r.peer.held.Load(); ; held = r.peer.held.Load() {
		if !r.budget.shares(r.peer, n) {
			return false
		}
		if r.peer.held.CompareAndSwap(held, held+n) {
			break
		}
	}
	if r.budget.tryReserve(n, r.leaves) {
		return true
	}
	r.peer.held.Add(-n)
	return false
}

// untake undoes tryTake.
func (r *Reservation) untake(n int64) {
	if r.peer != nil {
		r.peer.held.Add(-n)
	}
	r.budget.used.Add(-n)
}
