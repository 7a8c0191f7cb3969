package scan

import (
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
)

const (
	// mostWaiting bounds the batches that wait: those of tiny files weigh next
	// to nothing.
	mostWaiting = 32
	// kept is the part of the budget, as 1/kept, that is left to those who
	// cannot go on without: decoding ahead can.
	kept = 4
)

// item is a batch on its way to the consumer.
type item struct {
	batch arrow.RecordBatch
	bytes int64 // reserved for it
	file  int   // of the source
}

// room is where decoded batches wait, between the goroutine that decodes and
// the consumer, and the reader's part of the budget. What the consumer waits
// for is reserved, once other streams have given memory back if need be, or
// fails; what is decoded ahead is reserved where there is room, and else put off
// until the consumer waits for it.
type room struct {
	budget *budget.Budget
	held   *budget.Reservation
	ahead  int64
	filled chan struct{} // wakes the consumer
	freed  chan struct{} // wakes the decoder

	mu      sync.Mutex
	waiting []item
	bytes   int64 // of waiting
	hungry  bool  // the consumer waits, and has given its last batch back
	ended   bool
	err     error
}

func newRoom(b *budget.Budget, what string, ahead int64) (*room, error) {
	held, err := b.Reserve(what, 0)
	if err != nil {
		return nil, err
	}
	return &room{budget: b, held: held, ahead: ahead, filled: make(chan struct{}, 1), freed: make(chan struct{}, 1)}, nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// admit reserves n bytes for the decoder, which will hold decoded bytes of a
// batch among them. It waits while the batches that wait already leave no
// room; it fails with Exhausted only when the consumer has nothing left to
// give back, and waiting for other streams is in vain.
func (r *room) admit(ctx context.Context, n, decoded int64) error {
	for {
		r.mu.Lock()
		hungry := r.hungry
		fits := r.ahead > 0 && len(r.waiting) < mostWaiting && r.bytes+decoded <= r.ahead
		r.mu.Unlock()
		if hungry {
			return r.held.GrowWait(ctx, n)
		}
		if fits && r.spare(n) && r.held.Grow(n) == nil {
			return nil
		}
		select {
		case <-r.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// spare says whether the budget has n bytes that nobody is likely to need
// more urgently.
func (r *room) spare(n int64) bool {
	limit := r.budget.Limit()
	return limit < 0 || r.budget.Used()+n <= limit-limit/kept
}

// settle corrects what was admitted for a batch to what it takes.
func (r *room) settle(ctx context.Context, admitted, actual int64) error {
	if actual <= admitted {
		r.held.Shrink(admitted - actual)
		return nil
	}
	return r.admit(ctx, actual-admitted, actual)
}

// put leaves a batch, whose bytes were admitted, for the consumer.
func (r *room) put(it item) {
	r.mu.Lock()
	r.waiting = append(r.waiting, it)
	r.bytes += it.bytes
	r.hungry = false
	r.mu.Unlock()
	wake(r.filled)
}

// end says that no batch follows.
func (r *room) end(err error) {
	r.mu.Lock()
	r.ended, r.err = true, err
	r.mu.Unlock()
	wake(r.filled)
}

// take waits for the next batch; one without a batch is the end. The consumer
// holds no other batch.
func (r *room) take(ctx context.Context) (item, error) {
	for {
		if ctx.Err() != nil {
			return item{}, context.Cause(ctx)
		}
		if it, over, err := r.first(); over || it.batch != nil {
			return it, err
		}
		select {
		case <-r.filled:
		case <-ctx.Done():
		}
	}
}

// first takes the batch that waits longest. Where none waits, it says whether
// one will come, and lets the decoder know that it is waited for.
func (r *room) first() (it item, over bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer wake(r.freed)
	if len(r.waiting) == 0 {
		r.hungry = true
		return item{}, r.ended, r.err
	}
	it = r.waiting[0]
	r.waiting[0] = item{}
	r.waiting = r.waiting[1:]
	r.bytes -= it.bytes
	return it, false, nil
}

// give returns the reservation of a batch that the consumer has released.
func (r *room) give(bytes int64) { r.held.Shrink(bytes) }

// drain releases the batches that nobody took, when nothing decodes any more.
func (r *room) drain() {
	for _, it := range r.waiting {
		it.batch.Release()
		r.held.Shrink(it.bytes)
	}
	r.waiting, r.bytes = nil, 0
}
