package loader

import (
	"context"
	"sync"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stream"
)

// Admit admits a read that costs as much as a stream. It returns the context to read
// with, and a function that ends the admission.
type Admit func(ctx context.Context) (in context.Context, leave func(), err error)

// Count returns the number of rows of each lane of a plan. If the plan or the query's cursors have
// the numbers, Count returns these. Otherwise, if the query requests it, Count reads the lanes
// without output columns and counts their rows. If the numbers are neither known nor requested,
// Count returns nil. Concurrent callers for the same plan share one count. The shared count needs
// one admission, and is canceled when all of its callers have left.
func (l *Loader) Count(ctx context.Context, p Planned, o StreamOptions, admit Admit) (*dataset.Counts, error) {
	known, err := stream.Known(p.Plan, p.Query.Reading, o.Counts)
	if err != nil || known != nil || !p.Query.CountsFirst() {
		return known, err
	}
	counts, err := l.counter.get(ctx, p.ID, func(ctx context.Context) (*dataset.Counts, error) {
		in, leave, err := admit(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		counts, err := l.countLanes(in, p.Plan, o.Peer)
		if err != nil && in.Err() != nil {
			err = context.Cause(in)
		}
		return counts, err
	})
	return counts, fault.Op(err, "count the rows of plan %s", p.ID)
}

// countLanes counts the rows of each lane.
func (l *Loader) countLanes(ctx context.Context, p *plan.Plan, peer string) (*dataset.Counts, error) {
	paid, err := l.pay(ctx, p, peer)
	if err != nil {
		return nil, err
	}
	defer paid.Release()
	defer l.keep(p, plan.Part{}).Release()
	return stream.CountLanes(ctx, l.streams, p, peer)
}

// rememberedLanes is the maximum number of lanes, over all plans, whose counts are
// remembered.
const rememberedLanes = 1 << 17

// counter counts the rows of plans. Concurrent callers for a plan share one count, which runs on
// the goroutine of one of them. It keeps the latest counts. Counts are stored by the plan's id,
// since the id covers everything that the plan's rows depend on. The zero value is ready to use.
type counter struct {
	mu      sync.Mutex
	running map[string]*counting
	counted map[string]*dataset.Counts
	oldest  []string // the keys of counted, oldest first
	lanes   int      // the number of lanes in counted
}

// counting is a count in progress.
type counting struct {
	waiting int // callers that wait for the result
	cancel  context.CancelFunc
	over    chan struct{}
}

// get returns the counts of a plan. If count fails, only the caller that ran it gets the error, and
// one of the other callers counts again. The context of count is canceled when all callers have
// left.
func (c *counter) get(ctx context.Context, id string, count func(ctx context.Context) (*dataset.Counts, error)) (*dataset.Counts, error) {
	for {
		counts, run, first := c.join(ctx, id, count)
		if counts != nil {
			return counts, nil
		}
		gone := context.AfterFunc(ctx, func() { c.leave(id, run) })
		if first != nil {
			counts, err := first()
			gone()
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return counts, err
		}
		select {
		case <-run.over:
			gone()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// join returns the remembered counts if there are any. Otherwise it adds the caller to the running
// count of the plan, or, if no count is running, returns in first the count that the caller has to
// run.
func (c *counter) join(ctx context.Context, id string, count func(ctx context.Context) (*dataset.Counts, error)) (*dataset.Counts, *counting, func() (*dataset.Counts, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if counts := c.counted[id]; counts != nil {
		return counts, nil, nil
	}
	if run := c.running[id]; run != nil {
		run.waiting++
		return nil, run, nil
	}
	inside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run := &counting{waiting: 1, cancel: cancel, over: make(chan struct{})}
	if c.running == nil {
		c.running, c.counted = map[string]*counting{}, map[string]*dataset.Counts{}
	}
	c.running[id] = run
	return nil, run, func() (counts *dataset.Counts, err error) {
		defer func() { c.end(id, run, counts) }() // even a panic must end the other callers' wait
		return count(inside)
	}
}

// leave removes a caller from the callers that wait for a count.
func (c *counter) leave(id string, run *counting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run.waiting--
	if run.waiting == 0 {
		c.forget(id, run)
		run.cancel()
	}
}

// end keeps the counts unless they are nil, and wakes the callers that wait for them.
func (c *counter) end(id string, run *counting, counts *dataset.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(id, run)
	run.cancel()
	close(run.over)
	if counts == nil || c.counted[id] != nil {
		return
	}
	c.counted[id], c.oldest = counts, append(c.oldest, id)
	c.lanes += len(counts.Lanes)
	for c.lanes > rememberedLanes {
		c.lanes -= len(c.counted[c.oldest[0]].Lanes)
		delete(c.counted, c.oldest[0])
		c.oldest = c.oldest[1:]
	}
}

// forget removes a count that ends, so that the next caller starts a new one. The
// caller holds mu.
func (c *counter) forget(id string, run *counting) {
	if c.running[id] == run {
		delete(c.running, id)
	}
}
