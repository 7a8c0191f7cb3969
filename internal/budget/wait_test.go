package budget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
)

// entered is a stream of a test: what it holds, and how its waiting ended.
type entered struct {
	t      *testing.T
	ctx    context.Context
	stream *release.Handle
	held   *budget.Reservation
	ended  chan error
}

func enter(t *testing.T, b *budget.Budget, bytes int64) *entered {
	t.Helper()
	s := &entered{t: t, ended: make(chan error, 1)}
	s.ctx, s.stream = b.Enter(t.Context(), "")
	var err error
	s.held, err = b.Reserve("rows", bytes)
	require.NoError(t, err)
	return s
}

// want asks for more, on a goroutine of its own.
func (s *entered) want(bytes int64) {
	go func() { s.ended <- s.held.GrowWait(s.ctx, bytes) }()
	synctest.Wait()
}

func (s *entered) waits() bool {
	synctest.Wait()
	select {
	case err := <-s.ended:
		s.ended <- err
		return false
	default:
		return true
	}
}

func (s *entered) end() {
	s.held.Release()
	s.stream.Release()
	synctest.Wait()
}

// inBubbles runs each case with a budget of 100 bytes and a clock of its own.
func inBubbles(t *testing.T, cases map[string]func(t *testing.T, b *budget.Budget)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(100)
				c(t, b)
				require.Zero(t, b.Used())
			})
		})
	}
}

// spec: join-56
func TestGrowWait(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, b *budget.Budget){
		"there is room": func(t *testing.T, b *budget.Budget) {
			one := enter(t, b, 60)
			one.want(40)
			require.NoError(t, <-one.ended)
			one.end()
		},
		"until another releases enough": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 60), enter(t, b, 40)
			one.want(30)
			require.True(t, one.waits())
			other.held.Shrink(20)
			require.True(t, one.waits())
			other.held.Shrink(10)
			require.NoError(t, <-one.ended)
			require.Equal(t, int64(90), one.held.Held())
			one.end()
			other.end()
		},
		"the oldest first": func(t *testing.T, b *budget.Budget) {
			old, young, other := enter(t, b, 0), enter(t, b, 0), enter(t, b, 100)
			young.want(10)
			old.want(50)
			other.held.Shrink(20)
			require.True(t, young.waits())
			other.held.Shrink(30)
			require.NoError(t, <-old.ended)
			require.True(t, young.waits())
			old.end()
			require.NoError(t, <-young.ended)
			young.end()
			other.end()
		},
		"a younger one that fits, when every stream waits": func(t *testing.T, b *budget.Budget) {
			old, young, last := enter(t, b, 50), enter(t, b, 30), enter(t, b, 20)
			old.want(60)
			young.want(10)
			last.held.Shrink(10)
			require.True(t, young.waits(), "the next room is the oldest's")
			last.want(80)
			require.NoError(t, <-young.ended)
			require.True(t, last.waits() && old.waits())
			young.end()
			require.Error(t, <-last.ended, "none fits")
			last.end()
			require.Error(t, <-old.ended, "it has 50 and reserves 60")
			old.end()
		},
		"until a stream leaves": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 60), enter(t, b, 0)
			rest, err := b.Reserve("a cache", 40)
			require.NoError(t, err)
			one.want(10)
			require.True(t, one.waits())
			other.end()
			require.Equal(t, fault.Exhausted, fault.KindOf(<-one.ended), "no other stream can release memory")
			rest.Release()
			one.end()
		},
		"room alone": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 60), enter(t, b, 40)
			go func() { one.ended <- b.Await(one.ctx, "a build side", 30) }()
			require.True(t, one.waits())
			other.held.Shrink(30)
			require.NoError(t, <-one.ended)
			require.Equal(t, int64(70), b.Used())
			one.end()
			other.end()
		},
		"until the context ends": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 60), enter(t, b, 40)
			cause := errors.New("the client went away")
			ctx, cancel := context.WithCancelCause(one.ctx)
			one.ctx = ctx
			one.want(10)
			require.True(t, one.waits())
			cancel(cause)
			require.ErrorIs(t, <-one.ended, cause)
			require.Equal(t, int64(60), one.held.Held())
			one.end()
			other.end()
		},
	})
}

// spec: join-57
func TestGrowWaitFails(t *testing.T) {
	t.Parallel()
	inBubbles(t, map[string]func(t *testing.T, b *budget.Budget){
		"alone": func(t *testing.T, b *budget.Budget) {
			one := enter(t, b, 60)
			err := one.held.GrowWait(one.ctx, 41)
			require.Equal(t, fault.Exhausted, fault.KindOf(err))
			require.ErrorContains(t, err, "rows needs 41 bytes more, 60 of the memory budget's 100 are in use")
			require.Zero(t, fault.As(err).RetryAfter, "no other stream can release memory")
			other := enter(t, b, 0)
			require.Equal(t, budget.MaxWait, fault.As(one.held.Grow(41)).RetryAfter)
			require.Zero(t, fault.As(one.held.Grow(101)).RetryAfter, "more than there is")
			other.end()
			one.end()
		},
		"more than there is": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 0), enter(t, b, 10)
			began := time.Now()
			require.Equal(t, fault.Exhausted, fault.KindOf(one.held.GrowWait(one.ctx, 101)))
			require.Zero(t, time.Since(began))
			one.end()
			other.end()
		},
		"without waiting": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 60), enter(t, b, 10)
			require.Equal(t, fault.Exhausted, fault.KindOf(one.held.GrowWait(budget.NoWait(one.ctx), 50)))
			one.end()
			other.end()
		},
		"not of a stream": func(t *testing.T, b *budget.Budget) {
			other := enter(t, b, 100)
			r, err := b.Reserve("rows", 0)
			require.NoError(t, err)
			require.Equal(t, fault.Exhausted, fault.KindOf(r.GrowWait(t.Context(), 1)))
			other.end()
		},
		"when all wait, the youngest": func(t *testing.T, b *budget.Budget) {
			old, young := enter(t, b, 50), enter(t, b, 50)
			young.want(20)
			require.True(t, young.waits())
			old.want(20)
			require.Equal(t, fault.Exhausted, fault.KindOf(<-young.ended))
			require.True(t, old.waits())
			young.end()
			require.NoError(t, <-old.ended)
			old.end()
		},
		"when all wait, one that fits goes first": func(t *testing.T, b *budget.Budget) {
			old, young := enter(t, b, 50), enter(t, b, 40)
			old.want(20)
			require.True(t, old.waits())
			young.want(10)
			require.NoError(t, <-young.ended)
			require.True(t, old.waits())
			young.end()
			require.NoError(t, <-old.ended)
			old.end()
		},
		"a stream of two goroutines waits as one": func(t *testing.T, b *budget.Budget) {
			old, young := enter(t, b, 50), enter(t, b, 50)
			young.want(20)
			more := make(chan error, 1)
			go func() { more <- young.held.GrowWait(young.ctx, 30) }()
			synctest.Wait()
			require.True(t, young.waits())
			old.want(20)
			require.Equal(t, fault.Exhausted, fault.KindOf(<-more), "the one that asked last")
			require.Equal(t, fault.Exhausted, fault.KindOf(<-young.ended))
			young.end()
			require.NoError(t, <-old.ended)
			old.end()
		},
		"when the others stand still": func(t *testing.T, b *budget.Budget) {
			old, young := enter(t, b, 50), enter(t, b, 50)
			old.want(20)
			require.True(t, old.waits())
			blocked := budget.MarkBlocked(young.ctx)
			require.Equal(t, fault.Exhausted, fault.KindOf(<-old.ended))
			blocked.Release()
			old.want(20)
			require.True(t, old.waits())
			young.end()
			require.NoError(t, <-old.ended)
			old.end()
			require.Nil(t, budget.MarkBlocked(t.Context()))
		},
		"when the others stand still for what is done ahead": func(t *testing.T, b *budget.Budget) {
			old, young := enter(t, b, 50), enter(t, b, 50)
			prefetch, await := budget.Prefetch(young.ctx)
			old.want(20)
			blocked := budget.MarkBlocked(prefetch)
			require.True(t, old.waits(), "the young one does not wait for what is done ahead")
			awaited := await()
			require.Equal(t, fault.Exhausted, fault.KindOf(<-old.ended))
			blocked.Release()
			old.want(20)
			require.True(t, old.waits(), "prefetching continues")
			blocked = budget.MarkBlocked(prefetch)
			require.Equal(t, fault.Exhausted, fault.KindOf(<-old.ended))
			awaited.Release()
			old.want(20)
			require.True(t, old.waits(), "the young one continues")
			blocked.Release()
			young.end()
			require.NoError(t, <-old.ended)
			old.end()
		},
		"ahead": func(t *testing.T, b *budget.Budget) {
			one, other := enter(t, b, 60), enter(t, b, 10)
			prefetch, await := budget.Prefetch(one.ctx)
			defer await().Release()
			require.Equal(t, fault.Exhausted, fault.KindOf(one.held.GrowWait(prefetch, 50)))
			prefetch, await = budget.Prefetch(t.Context())
			defer await().Release()
			require.Nil(t, budget.MarkBlocked(prefetch))
			one.end()
			other.end()
		},
		"after a minute": func(t *testing.T, b *budget.Budget) {
			one, idle := enter(t, b, 60), enter(t, b, 40)
			began := time.Now()
			one.want(10)
			require.Equal(t, fault.Exhausted, fault.KindOf(<-one.ended))
			require.Equal(t, budget.MaxWait, time.Since(began))
			one.end()
			idle.end()
		},
	})
}

// TestWaitingNeverLocksUp lets streams take memory step by step until they
// have what they need or fail. A lock-up would be found by synctest. How many
// fail depends on who runs when; the oldest never does.
func TestWaitingNeverLocksUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(1000)
		var group sync.WaitGroup
		var mu sync.Mutex
		done, failed, oldest := 0, 0, 0
		var open []context.Context // oldest first
		for i := range 20 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				for range 50 {
					mu.Lock()
					ctx, stream := b.Enter(t.Context(), "")
					open = append(open, ctx)
					mu.Unlock()
					held, err := b.Reserve("rows", 0)
					for range 1 + r.IntN(6) {
						mu.Lock()
						first := open[0] == ctx
						mu.Unlock()
						if err == nil {
							err = held.GrowWait(ctx, int64(1+r.IntN(60)))
							if first {
								oldest++ // there is one oldest at a time
							}
							if first && err != nil {
								t.Errorf("the oldest stream fails: %v", err)
							}
						}
						time.Sleep(time.Duration(r.IntN(10)))
					}
					held.Release()
					mu.Lock()
					stream.Release()
					open = slices.DeleteFunc(open, func(c context.Context) bool { return c == ctx })
					if err == nil {
						done++
					} else {
						failed++
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		require.Zero(t, b.Used())
		require.LessOrEqual(t, b.Peak(), int64(1000))
		require.Positive(t, failed)
		require.Positive(t, done)
		require.Positive(t, oldest)
	})
}

func TestNilNeverWaits(t *testing.T) {
	t.Parallel()
	var b *budget.Budget
	ctx, stream := b.Enter(t.Context(), "")
	defer stream.Release()
	require.NoError(t, b.Await(ctx, "rows", 1<<60))
}
