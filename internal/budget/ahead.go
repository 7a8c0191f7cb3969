package budget

import (
	"context"
	"sync"
)

// Ahead returns a context for what is done ahead for the stream of ctx, on a
// goroutine of its own, and can be put off. With it nothing waits for memory, as
// with NoWait. It may wait for another stream, and says so with Blocked; that
// blocks its own stream only while that one waits for it: from when join is
// called until what join returns is.
func Ahead(ctx context.Context) (ahead context.Context, join func() (over func())) {
	s, _ := ctx.Value(streamKey{}).(*stream)
	if s == nil {
		return NoWait(ctx), func() (over func()) { return func() {} }
	}
	a := &stream{budget: s.budget, of: s}
	return context.WithValue(ctx, streamKey{}, a), a.join
}

// join says that a's stream waits for a, until over is called.
func (a *stream) join() (over func()) {
	q := &a.budget.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	a.joined = true
	if a.waits > 0 {
		q.block(a.of)
		a.budget.settle()
	}
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		a.joined = false
		if a.waits > 0 {
			q.unblock(a.of)
		}
	})
}
