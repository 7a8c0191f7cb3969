package disk

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// Offer is a chunk to write.
type Offer struct {
	ID ColumnID
	// Arrays are the chunk's values: one or more arrays of one type. Readers get the same arrays in
	// the same order. Dictionaries that arrays share are stored once. The tier retains the arrays;
	// their memory stays charged to the caller until Done is called.
	Arrays []arrow.Array
	// Cost is the cost of rebuilding the chunk, in any unit that is the same for all chunks. The
	// tier prefers to keep chunks that cost more per byte.
	Cost uint32
	// Done is called once, on any goroutine, when the tier no longer uses the arrays.
	Done func()

	key       ChunkKey
	bytes     int64
	condemned bool // the file is deleted once it is written; guarded by writeQueue.mu
}

// Put offers a chunk, and reports whether it was queued. It returns at once, and the chunk is
// written in the background. Put drops the chunk if the tier already has it, the queue is full or
// the disk does not work.
func (t *Tier) Put(o Offer) bool {
	o.key = o.ID.Key()
	count := func(s *TierStats) { s.Writes.Dropped++ }
	queued := false
	switch {
	case len(o.Arrays) == 0:
		count = func(s *TierStats) { s.Writes.Unstored++ }
	case t.present(o.key):
		count = func(s *TierStats) { s.Writes.Present++ }
	case t.writable():
		o.bytes = batch.ArraySize(o.Arrays...)
		for _, a := range o.Arrays {
			a.Retain()
		}
		if queued = t.queue.put(&o, t.options.Queue); !queued {
			releaseArrays(o.Arrays)
		}
	}
	if !queued {
		t.counts.add(count)
		o.Done()
	}
	return queued
}

// DropQueued drops the queued chunks, so that their memory can be released. It does not affect the
// chunk that is being written.
func (t *Tier) DropQueued() {
	dropped := t.queue.drop(func(*Offer) bool { return true })
	t.counts.add(func(s *TierStats) { s.Writes.Dropped += int64(dropped) })
}

func (t *Tier) present(key ChunkKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ledger.files[key] != nil || t.queue.has(key)
}

// writable reports whether the disk works, as far as the tier knows.
func (t *Tier) writable() bool {
	if t.hanging.Load() > 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.options.Clock == nil || !t.options.Clock().Before(t.paused)
}

// pause stops writing for a while, if there is a clock.
func (t *Tier) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.options.Clock != nil {
		t.paused = t.options.Clock().Add(retryAfter)
	}
}

func releaseArrays(arrays []arrow.Array) {
	for _, a := range arrays {
		a.Release()
	}
}

// end releases what the offer holds.
func (o *Offer) end() {
	releaseArrays(o.Arrays)
	o.Done()
}

// writeQueue is a queue of offers. It is safe for concurrent use.
type writeQueue struct {
	mu     sync.Mutex
	offers []*Offer
	keys   map[ChunkKey]bool // the keys of the queued offers and of the one that is being written
	bytes  int64             // the bytes of the queued offers, without the one that is being written
	open   *Offer            // the offer that is being written; nil: none
	wake   chan struct{}     // has an element if there may be something to do
	closed bool
}

func (q *writeQueue) init() { q.keys, q.wake = map[ChunkKey]bool{}, make(chan struct{}, 1) }

// put appends an offer if it fits and the queue is open.
func (q *writeQueue) put(o *Offer, limit int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.keys[o.key] || o.bytes > limit-q.bytes {
		return false
	}
	q.offers = append(q.offers, o)
	q.keys[o.key] = true
	q.bytes += o.bytes
	q.signal()
	return true
}

func (q *writeQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next waits for an offer and removes it from the queue. It returns nil when the queue is closed
// and empty, or ctx ends.
func (q *writeQueue) next(ctx context.Context) *Offer {
	for {
		o, closed := q.take()
		if o != nil || closed {
			return o
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (q *writeQueue) take() (o *Offer, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.offers) == 0 {
		return nil, q.closed
	}
	o = q.offers[0]
	q.offers[0] = nil
	q.offers = q.offers[1:]
	q.bytes -= o.bytes
	q.open = o
	return o, q.closed
}

// written marks an offer that came from next as finished, and reports whether its file must be
// deleted.
func (q *writeQueue) written(o *Offer) (condemned bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.keys, o.key)
	q.open = nil
	return o.condemned
}

// condemn marks the offer that is being written, if it matches, so that its file is deleted once it
// is written.
func (q *writeQueue) condemn(match func(*Offer) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open != nil && match(q.open) {
		q.open.condemned = true
	}
}

// drop drops the queued offers that match, and returns their number.
func (q *writeQueue) drop(match func(*Offer) bool) int {
	q.mu.Lock()
	var kept, dropped []*Offer
	for _, o := range q.offers {
		if !match(o) {
			kept = append(kept, o)
			continue
		}
		dropped = append(dropped, o)
		delete(q.keys, o.key)
		q.bytes -= o.bytes
	}
	q.offers = kept
	q.mu.Unlock()
	for _, o := range dropped {
		o.end()
	}
	return len(dropped)
}

// close lets the writer end after the last offer.
func (q *writeQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *writeQueue) has(key ChunkKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys[key]
}

func (q *writeQueue) size() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}
