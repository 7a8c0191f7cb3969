package budget

import (
	"context"

	"github.com/penstock/penstock/internal/release"
)

// Prefetch returns a context for work that another goroutine does in advance for the stream of ctx.
// As with NoWait, this work never waits for memory. It may wait for another stream (MarkBlocked).
// Such a wait counts as a wait of the stream of ctx only while that stream waits for the work: from
// a call of await until its Handle is released.
func Prefetch(ctx context.Context) (prefetch context.Context, await func() *release.Handle) {
	s, _ := ctx.Value(streamKey{}).(*stream)
	if s == nil {
		return NoWait(ctx), func() *release.Handle { return nil }
	}
	work := &stream{budget: s.budget, of: s, own: s.own}
	return context.WithValue(ctx, streamKey{}, work), work.await
}

// await marks the stream for which s prefetches as waiting for s.
func (s *stream) await() *release.Handle {
	s.budget.changeQueue(func(q *queue) {
		s.awaited = true
		if s.waits > 0 {
			q.block(s.of)
		}
	})
	return release.New(func() {
		q := &s.budget.queue
		q.mu.Lock()
		defer q.mu.Unlock()
		s.awaited = false
		if s.waits > 0 {
			q.unblock(s.of)
		}
	})
}
