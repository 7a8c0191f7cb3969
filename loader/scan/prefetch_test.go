package scan

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

func nothing() arrow.RecordBatch { return array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1) }

// TestAdmit admits batches with a context that has ended: a call that would have to wait
// fails at once.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const (
		admitted  = "admitted"
		waits     = "waits"
		exhausted = "exhausted"
	)
	for name, c := range map[string]struct {
		ahead    int64
		waiting  []int64 // bytes of the batches that wait
		starving bool
		whole    bool
		limit    int64
		others   int64 // bytes that others hold
		n        int64
		want     string
	}{
		"first, asked for":                         {ahead: 100, starving: true, limit: 1000, n: 10, want: admitted},
		"first, not asked for":                     {ahead: 100, limit: 1000, n: 10, want: admitted},
		"up to the bound":                          {ahead: 100, waiting: []int64{40, 50}, limit: 1000, n: 10, want: admitted},
		"beyond the bound":                         {ahead: 100, waiting: []int64{40, 50}, limit: 1000, n: 11, want: waits},
		"larger than the bound":                    {ahead: 100, limit: 1000, n: 101, want: waits},
		"larger than the bound, and whole":         {ahead: 100, whole: true, limit: 1000, n: 101, want: admitted},
		"a second one that is whole":               {ahead: 100, whole: true, waiting: []int64{40}, limit: 1000, n: 101, want: waits},
		"larger than the bound, asked for":         {ahead: 100, starving: true, limit: 1000, n: 101, want: admitted},
		"nothing ahead":                            {ahead: NoAhead, limit: 1000, n: 1, want: waits},
		"nothing ahead, asked for":                 {ahead: NoAhead, starving: true, limit: 1000, n: 1, want: admitted},
		"too many":                                 {ahead: 100, waiting: make([]int64, maxWaiting), limit: 1000, n: 1, want: waits},
		"three quarters of the budget":             {ahead: 100, limit: 1000, others: 740, n: 10, want: admitted},
		"the last quarter of the budget":           {ahead: 100, limit: 1000, others: 740, n: 11, want: waits},
		"the last quarter, asked for":              {ahead: 100, starving: true, limit: 1000, others: 740, n: 11, want: admitted},
		"the last byte, asked for":                 {ahead: 100, starving: true, limit: 1000, others: 990, n: 10, want: admitted},
		"beyond the budget":                        {ahead: 5000, limit: 1000, n: 1001, want: waits},
		"beyond the budget, asked for":             {ahead: 5000, starving: true, limit: 1000, n: 1001, want: exhausted},
		"beyond what others left, asked for":       {ahead: 100, starving: true, limit: 1000, others: 995, n: 10, want: exhausted},
		"no budget":                                {ahead: 100, limit: -1, n: 100, want: admitted},
		"no budget, beyond the bound":              {ahead: 100, limit: -1, n: 101, want: waits},
		"no budget, larger than bounds, asked for": {ahead: 100, starving: true, limit: -1, n: 1 << 40, want: admitted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var limit *budget.Budget
			if c.limit >= 0 {
				limit = budget.New(c.limit)
			}
			other, err := limit.Reserve("others", c.others)
			require.NoError(t, err)
			defer other.Release()
			r, err := newPrefetchQueue(t.Context(), limit, "the test", c.ahead)
			require.NoError(t, err)
			defer r.held.Release()
			for _, bytes := range c.waiting {
				r.push(item{batch: nothing(), bytes: bytes})
			}
			r.starving, r.whole = c.starving, c.whole
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			switch err := r.admit(ctx, c.n, c.n); {
			case err == nil:
				require.Equal(t, c.want, admitted)
				require.Equal(t, c.n, r.held.Held())
			case fault.KindOf(err) == fault.Exhausted:
				require.Equal(t, c.want, exhausted)
			default:
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, c.want, waits)
			}
		})
	}
}

// TestAdmitWaits checks that, if the consumer waits, admitting waits until other streams
// release memory.
//
// spec: join-56
func TestAdmitWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := budget.New(100)
		ctx, stream := limit.Enter(t.Context(), "")
		defer stream.Release()
		_, otherStream := limit.Enter(t.Context(), "")
		defer otherStream.Release()
		other, err := limit.Reserve("another stream", 95)
		require.NoError(t, err)
		r, err := newPrefetchQueue(t.Context(), limit, "the test", 100)
		require.NoError(t, err)
		r.starving = true
		admitted := make(chan error, 1)
		go func() { admitted <- r.admit(ctx, 10, 10) }()
		synctest.Wait()
		require.Empty(t, admitted)
		other.Release()
		require.NoError(t, <-admitted)
		require.Equal(t, int64(10), limit.Used())
		r.held.Release()
	})
}

// TestAdjust corrects estimates that are too low and too high.
func TestAdjust(t *testing.T) {
	t.Parallel()
	limit := budget.New(100)
	r, err := newPrefetchQueue(t.Context(), limit, "the test", 100)
	require.NoError(t, err)
	r.starving = true
	require.NoError(t, r.admit(t.Context(), 50, 50))
	require.NoError(t, r.adjust(t.Context(), 50, 30))
	require.Equal(t, int64(30), limit.Used())
	require.NoError(t, r.adjust(t.Context(), 30, 100))
	require.Equal(t, int64(100), limit.Used())
	require.Equal(t, fault.Exhausted, fault.KindOf(r.adjust(t.Context(), 100, 101)))
}

// TestTake checks that waiting batches are taken in order, followed by the end, and that
// none is returned after the context has ended.
func TestTake(t *testing.T) {
	t.Parallel()
	r, err := newPrefetchQueue(t.Context(), nil, "the test", 100)
	require.NoError(t, err)
	broken := fault.New(fault.Corrupt, "broken")
	for i := range 3 {
		r.push(item{batch: nothing(), bytes: 10, file: i})
	}
	r.finish(broken)
	for i := range 2 {
		it, err := r.pop(t.Context())
		require.NoError(t, err)
		require.Equal(t, i, it.file)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	it, err := r.pop(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, it.batch)
	it, err = r.pop(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, it.file)
	it, err = r.pop(t.Context())
	require.ErrorIs(t, err, broken)
	require.Nil(t, it.batch)
	require.Zero(t, r.bytes)
}

// TestGiveUp checks that a decoder gives up in every call until its consumer waits, and not if the
// consumer waits.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, err := newPrefetchQueue(t.Context(), budget.New(100), "the test", 50)
		require.NoError(t, err)
		defer q.held.Release()
		waits := make(chan error)
		for range 2 {
			go func() { waits <- q.admitOrGiveUp(t.Context(), 60, 60) }()
		}
		synctest.Wait()
		require.True(t, q.giveUp())
		require.ErrorIs(t, <-waits, errGivenUp)
		wake(q.freed)
		require.ErrorIs(t, <-waits, errGivenUp)
		require.NoError(t, q.admit(t.Context(), 10, 10))
		go func() { waits <- q.awaitConsumer(t.Context()) }()
		synctest.Wait()
		it, ended, err := q.first()
		require.Nil(t, it.batch)
		require.False(t, ended)
		require.NoError(t, err)
		require.NoError(t, <-waits)
		require.False(t, q.giveUp(), "the consumer waits")
		require.NoError(t, q.admitOrGiveUp(t.Context(), 60, 60))
		q.finish(nil)
		require.True(t, q.giveUp(), "the decoder has ended")
	})
}
