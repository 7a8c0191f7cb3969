package budget

import (
	"context"
	"sync/atomic"
)

// peer is a client host. Memory that streams share, such as build sides and footers,
// counts against no peer.
type peer struct {
	held atomic.Int64 // reserved bytes that count against the peer's share

	// Guarded by queue.mu.
	open    int // streams that have entered and not left
	blocked int // number of open streams that wait
}

// addStream adds an open stream of a peer. q.mu is held.
func (q *queue) addStream(from string) *peer {
	p := q.peers[from]
	if p == nil {
		p = &peer{}
		if q.peers == nil {
			q.peers = map[string]*peer{}
		}
		q.peers[from] = p
	}
	p.open++
	q.countPeers()
	return p
}

// removeStream undoes addStream. q.mu is held.
func (q *queue) removeStream(from string) {
	q.peers[from].open--
	q.countPeers()
}

// countPeers recomputes q.several and drops peers with neither streams nor memory. A peer may have
// memory without streams: batches in flight outlive their streams. q.mu is held.
func (q *queue) countPeers() {
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

// ReserveFor is like Reserve, but if ctx belongs to a stream, the reservation counts against the
// share of the stream's peer.
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

// shares reports whether a peer may hold n more bytes. A peer that holds nothing may exceed its
// share with them.
func (b *Budget) shares(p *peer, n int64) bool {
	if p == nil || b.share == 0 || n <= 0 || !b.queue.several.Load() {
		return true
	}
	held := p.held.Load()
	return held == 0 || held+n <= b.share
}

// tryTake adds n bytes to the used bytes and to the peer's bytes if there is room, and reports
// whether it did.
func (r *Reservation) tryTake(n int64) bool {
	if r.peer == nil {
		return r.budget.tryReserve(n, r.keepFree)
	}
	for held := r.peer.held.Load(); ; held = r.peer.held.Load() {
		if !r.budget.shares(r.peer, n) {
			return false
		}
		if r.peer.held.CompareAndSwap(held, held+n) {
			break
		}
	}
	if r.budget.tryReserve(n, r.keepFree) {
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
