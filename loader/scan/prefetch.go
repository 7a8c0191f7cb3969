package scan

import (
	"context"
	"errors"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/trace"
	"github.com/penstock/penstock/internal/waits"
)

const (
	// maxWaiting is the maximum number of batches in the queue: the bound in bytes does not
	// limit tiny ones.
	maxWaiting = 32
	// urgentDivisor gives the part of the budget, 1/urgentDivisor, that stays free for work that
	// cannot proceed without memory. Work ahead of the consumer may not use this part.
	urgentDivisor = 4
	// runDivisor gives the part of the budget, 1/runDivisor, that the strings of one column
	// may take in a batch.
	runDivisor = 8
	// maxRun is the maximum size of this part in bytes: larger batches decode no faster.
	maxRun = 32 << 20
)

// item is a decoded batch. The zero item is the end.
type item struct {
	batch arrow.RecordBatch
	bytes int64       // reserved for the batch
	views int64       // bytes of cached columns that the batch refers to
	unit  *trace.Work // how it was decoded; nil: it is not recorded
	file  int         // the file's index in the source
}

// prefetchQueue is the queue of decoded batches between the decoder and the consumer. It holds the
// reader's memory reservation. While the consumer waits for a batch and memory is lacking, the
// decoder waits for memory or fails. Batches ahead of the consumer are decoded only while there is
// memory to spare.
type prefetchQueue struct {
	budget *budget.Budget
	held   *budget.Reservation
	ahead  int64
	whole  bool          // the queue may hold one batch of any size
	filled chan struct{} // wakes the consumer
	freed  chan struct{} // wakes the decoder

	starting func() bool // while it returns true, the queue holds at most one batch; nil: always false

	mu       sync.Mutex
	waiting  []item
	bytes    int64 // of waiting
	starving bool  // the consumer waits and holds no batch
	givesUp  bool  // admitOrGiveUp fails
	ended    bool
	err      error
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

// admit reserves n bytes for the decoder, which will use the number `decoded` of these bytes for a
// batch. While the consumer has a batch, admit waits until the queue has room and there is memory
// to spare. If the consumer is starving, admit reserves with GrowWait instead: it waits only for
// memory of other streams, and may fail with Exhausted.
func (q *prefetchQueue) admit(ctx context.Context, n, decoded int64) error {
	return q.admitIf(ctx, n, decoded, false)
}

// errGivenUp is the error of admitOrGiveUp after giveUp.
var errGivenUp = errors.New("the memory of the open row group is needed elsewhere")

// admitOrGiveUp is admit for a decoder that can close its row group and continue later at the same
// row. After giveUp, all calls fail with errGivenUp until awaitConsumer returns. More than one call
// may have to fail, because a decoder may reserve memory for several columns at once.
func (q *prefetchQueue) admitOrGiveUp(ctx context.Context, n, decoded int64) error {
	return q.admitIf(ctx, n, decoded, true)
}

// giveUp makes calls of admitOrGiveUp fail, including calls that are waiting. It does nothing while
// the consumer waits for a batch. It reports whether the decoder will close its row group without
// further calls of the consumer.
func (q *prefetchQueue) giveUp() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.starving {
		return q.ended
	}
	q.givesUp = true
	wake(q.freed)
	return true
}

// awaitConsumer waits until the consumer waits for a batch. Then admitOrGiveUp works again.
func (q *prefetchQueue) awaitConsumer(ctx context.Context) error {
	for {
		q.mu.Lock()
		starving := q.starving
		q.givesUp = q.givesUp && !starving
		q.mu.Unlock()
		if starving {
			return nil
		}
		select {
		case <-q.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (q *prefetchQueue) admitIf(ctx context.Context, n, decoded int64, mayGiveUp bool) error {
	for {
		q.mu.Lock()
		if mayGiveUp && q.givesUp {
			q.mu.Unlock()
			return errGivenUp
		}
		starving := q.starving
		fits := q.ahead > 0 && len(q.waiting) < q.maxWaiting() && (q.bytes+decoded <= q.ahead || q.whole && len(q.waiting) == 0)
		q.mu.Unlock()
		if starving {
			return q.held.GrowWait(ctx, n)
		}
		if fits && q.spare(n) && q.held.Grow(n) == nil {
			return nil
		}
		if err := q.awaitFreed(ctx); err != nil {
			return err
		}
	}
}

// awaitFreed waits until the queue may have room.
func (q *prefetchQueue) awaitFreed(ctx context.Context) error {
	wait := trace.Of(ctx).Begin(trace.Wait)
	defer wait.End(nil, trace.Attribute{Key: trace.Cause, Text: "consumer"})
	select {
	case <-q.freed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxWaiting returns the maximum number of batches in the queue.
func (q *prefetchQueue) maxWaiting() int {
	if q.starting != nil && q.starting() {
		return 1
	}
	return maxWaiting
}

// admission is the type of the methods admit and admitAhead.
type admission func(ctx context.Context, n, decoded int64) error

// errNotSpare is the error of admitAhead when there is no memory to spare.
var errNotSpare = errors.New("there is no memory to spare")

// admitAhead reserves n bytes for work ahead of the consumer, or fails with errNotSpare.
func (q *prefetchQueue) admitAhead(_ context.Context, n, _ int64) error {
	if !q.spare(n) || q.held.Grow(n) != nil {
		return errNotSpare
	}
	return nil
}

// spare reports whether the budget has n bytes to spare.
func (q *prefetchQueue) spare(n int64) bool { return hasSpare(q.budget, n) }

// share returns the maximum size of one column's strings in a batch; 0 is the default of
// package parquet.
func (q *prefetchQueue) share() int64 {
	limit := q.budget.Limit()
	if limit < 0 {
		return 0
	}
	return min(max(limit/runDivisor, 1), maxRun)
}

// adjust changes the reservation of a batch from the admitted to its actual size.
func (q *prefetchQueue) adjust(ctx context.Context, admitted, actual int64) error {
	if actual <= admitted {
		q.held.Shrink(admitted - actual)
		return nil
	}
	return q.admitOrGiveUp(ctx, actual-admitted, actual)
}

// push appends a batch, whose bytes were admitted.
func (q *prefetchQueue) push(it item) {
	q.mu.Lock()
	q.waiting = append(q.waiting, it)
	q.bytes += it.bytes + it.views
	q.starving = false
	q.mu.Unlock()
	wake(q.filled)
}

// finish ends the queue: no batch follows.
func (q *prefetchQueue) finish(err error) {
	q.mu.Lock()
	q.ended, q.err = true, err
	q.mu.Unlock()
	wake(q.filled)
}

// pop waits for the next batch, and returns the zero item at the end. The consumer holds no
// other batch.
func (q *prefetchQueue) pop(ctx context.Context) (item, error) {
	for {
		if ctx.Err() != nil {
			return item{}, context.Cause(ctx)
		}
		if it, ended, err := q.first(); ended || it.batch != nil {
			return it, err
		}
		q.awaitFilled(ctx)
	}
}

// awaitFilled waits until the queue may have changed, or ctx ends.
func (q *prefetchQueue) awaitFilled(ctx context.Context) {
	defer waits.Of(ctx).AwaitRows()()
	select {
	case <-q.filled:
	case <-ctx.Done():
	}
}

// first removes the first batch. If there is none, it reports whether the queue has ended,
// and marks the consumer as starving.
func (q *prefetchQueue) first() (it item, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer wake(q.freed)
	if len(q.waiting) == 0 {
		q.starving = true
		return item{}, q.ended, q.err
	}
	it = q.waiting[0]
	q.waiting[0] = item{}
	q.waiting = q.waiting[1:]
	q.bytes -= it.bytes + it.views
	return it, false, nil
}

// release releases the reservation of a batch that was released.
func (q *prefetchQueue) release(bytes int64) { q.held.Shrink(bytes) }

// drain releases the remaining batches. It is called after the decoder has ended.
func (q *prefetchQueue) drain() {
	for _, it := range q.waiting {
		it.batch.Release()
		q.held.Shrink(it.bytes)
	}
	q.waiting, q.bytes = nil, 0
}

// computing reserves the memory of values that filters compute. It implements expr.Room.
type computing struct {
	ctx   context.Context //nolint:containedctx // of the call that filters a batch
	queue *prefetchQueue
}

// Grow implements expr.Room.
func (c computing) Grow(bytes int64) error { return c.queue.admitOrGiveUp(c.ctx, bytes, 0) }

// Shrink implements expr.Room.
func (c computing) Shrink(bytes int64) { c.queue.release(bytes) }
