package budget

import (
	"context"

	"github.com/penstock/penstock/internal/release"
)

// Prefetch returns a context for work that a goroutine does ahead for the stream of
// ctx. As with NoWait, nothing waits for memory with it. The work may wait for another
// stream (MarkBlocked). That blocks its own stream only while the stream waits for the
// work: from a call of await until its Handle is released.
func Prefetch(ctx context.Context) (prefetch context.Context, await func() *release.Handle) {
	s, _ := ctx.Value(streamKey{}).(*stream)
	if s == nil {
		return NoWait(ctx), func() *release.Handle { return nil }
	}
	work := &stream{budget: s.budget, of: s, own: s.own}
	return context.WithValue(ctx, streamKey{}, work), work.await
}

// await marks the stream that s works for as waiting for s.
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
