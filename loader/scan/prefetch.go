package scan

import (
	"context"
	"errors"
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
	// longRun is the part of the budget, as 1/longRun, that one column's long strings
	// may take of it in a batch, where batches can be shorter.
	longRun = 8
	// mostRun bounds that in bytes: larger batches decode no faster.
	mostRun = 32 << 20
)

// item is a batch on its way to the consumer.
type item struct {
	batch arrow.RecordBatch
	bytes int64 // reserved for it
	file  int   // of the source
}

// prefetchQueue is where decoded batches wait, between the goroutine that
// decodes and the consumer, and the reader's part of the budget. What the
// consumer waits for is reserved, once other streams have given memory back if
// need be, or fails; what is decoded ahead is reserved where there is room, and
// else put off until the consumer waits for it.
type prefetchQueue struct {
	budget *budget.Budget
	held   *budget.Reservation
	ahead  int64
	whole  bool          // one batch may wait ahead, however long it is
	filled chan struct{} // wakes the consumer
	freed  chan struct{} // wakes the decoder

	mu      sync.Mutex
	waiting []item
	bytes   int64 // of waiting
	hungry  bool  // the consumer waits, and has given its last batch back
	ended   bool
	err     error
}

func newPrefetchQueue(ctx context.Context, b *budget.Budget, what string, ahead int64) (*prefetchQueue, error) {
	held, err := b.ReserveFor(ctx, what, 0)
	if err != nil {
		return nil, err
	}
	return &prefetchQueue{budget: b, held: held, ahead: ahead, filled: make(chan struct{}, 1), freed: make(chan struct{}, 1)}, nil
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
func (q *prefetchQueue) admit(ctx context.Context, n, decoded int64) error {
	for {
		q.mu.Lock()
		hungry := q.hungry
		fits := q.ahead > 0 && len(q.waiting) < mostWaiting && (q.bytes+decoded <= q.ahead || q.whole && len(q.waiting) == 0)
		q.mu.Unlock()
		if hungry {
			return q.held.GrowWait(ctx, n)
		}
		if fits && q.spare(n) && q.held.Grow(n) == nil {
			return nil
		}
		select {
		case <-q.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// admission is how bytes are admitted: as admit does, or admitAhead.
type admission func(ctx context.Context, n, decoded int64) error

// errNotSpare is why something is not done ahead.
var errNotSpare = errors.New("there is no memory to spare")

// admitAhead reserves n bytes for what nobody waits for, if they are to spare.
func (q *prefetchQueue) admitAhead(_ context.Context, n, _ int64) error {
	if !q.spare(n) || q.held.Grow(n) != nil {
		return errNotSpare
	}
	return nil
}

// spare says whether the budget has n bytes that nobody is likely to need
// more urgently.
func (q *prefetchQueue) spare(n int64) bool { return roomy(q.budget, n) }

// share bounds the bytes of one column's strings in a batch; 0 is as the files'
// reader has it.
func (q *prefetchQueue) share() int64 {
	limit := q.budget.Limit()
	if limit < 0 {
		return 0
	}
	return min(max(limit/longRun, 1), mostRun)
}

// settle corrects what was admitted for a batch to what it takes.
func (q *prefetchQueue) settle(ctx context.Context, admitted, actual int64) error {
	if actual <= admitted {
		q.held.Shrink(admitted - actual)
		return nil
	}
	return q.admit(ctx, actual-admitted, actual)
}

// push leaves a batch, whose bytes were admitted, for the consumer.
func (q *prefetchQueue) push(it item) {
	q.mu.Lock()
	q.waiting = append(q.waiting, it)
	q.bytes += it.bytes
	q.hungry = false
	q.mu.Unlock()
	wake(q.filled)
}

// end says that no batch follows.
func (q *prefetchQueue) end(err error) {
	q.mu.Lock()
	q.ended, q.err = true, err
	q.mu.Unlock()
	wake(q.filled)
}

// pop waits for the next batch; one without a batch is the end. The consumer
// holds no other batch.
func (q *prefetchQueue) pop(ctx context.Context) (item, error) {
	for {
		if ctx.Err() != nil {
			return item{}, context.Cause(ctx)
		}
		if it, over, err := q.first(); over || it.batch != nil {
			return it, err
		}
		select {
		case <-q.filled:
		case <-ctx.Done():
		}
	}
}

// first takes the batch that waits longest. Where none waits, it says whether
// one will come, and lets the decoder know that it is waited for.
func (q *prefetchQueue) first() (it item, over bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer wake(q.freed)
	if len(q.waiting) == 0 {
		q.hungry = true
		return item{}, q.ended, q.err
	}
	it = q.waiting[0]
	q.waiting[0] = item{}
	q.waiting = q.waiting[1:]
	q.bytes -= it.bytes
	return it, false, nil
}

// giveBack returns the reservation of a batch that the consumer has released.
func (q *prefetchQueue) giveBack(bytes int64) { q.held.Shrink(bytes) }

// drain releases the batches that nobody took, when nothing decodes any more.
func (q *prefetchQueue) drain() {
	for _, it := range q.waiting {
		it.batch.Release()
		q.held.Shrink(it.bytes)
	}
	q.waiting, q.bytes = nil, 0
}
