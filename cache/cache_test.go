package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newCache(t *testing.T) *cache.Cache[*int] {
	t.Helper()
	c, err := cache.New[*int](1 << 20)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestLoadsOnce(t *testing.T) {
	t.Parallel()
	c := newCache(t)
	loads, started := 0, make(chan struct{})
	load := func(context.Context) (*int, int64, error) {
		loads++
		<-started
		return new(int), 8, nil
	}
	var group sync.WaitGroup
	values := make([]*int, 8)
	for i := range values {
		group.Go(func() {
			v, err := c.Get(context.Background(), "k", load)
			if err == nil {
				values[i] = v
			}
		})
	}
	close(started)
	group.Wait()
	again, err := c.Get(context.Background(), "k", load)
	require.NoError(t, err)
	for _, v := range values {
		require.Same(t, again, v)
	}
	require.Equal(t, 1, loads)
}

func TestFailedLoadIsNotCached(t *testing.T) {
	t.Parallel()
	c := newCache(t)
	broken := errors.New("broken")
	_, err := c.Get(context.Background(), "k", func(context.Context) (*int, int64, error) { return nil, 0, broken })
	require.ErrorIs(t, err, broken)
	v, err := c.Get(context.Background(), "k", func(context.Context) (*int, int64, error) { return new(int), 8, nil })
	require.NoError(t, err)
	require.NotNil(t, v)
}

// TestACancelledLoadPassesTheTurnOn: the first caller goes away while a second
// one waits for its load; the second one loads itself.
func TestACancelledLoadPassesTheTurnOn(t *testing.T) {
	t.Parallel()
	c := newCache(t)
	ctx, cancel := context.WithCancel(context.Background())
	loading := make(chan struct{})
	first := func(ctx context.Context) (*int, int64, error) {
		close(loading)
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	var group sync.WaitGroup
	group.Go(func() {
		_, err := c.Get(ctx, "k", first)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
	})
	<-loading
	group.Go(func() {
		v, err := c.Get(context.Background(), "k", func(context.Context) (*int, int64, error) { return new(int), 8, nil })
		if err != nil || v == nil {
			t.Errorf("the second caller got %v, %v", v, err)
		}
	})
	cancel()
	group.Wait()
}

// TestTooLargeValueIsSharedByConcurrentCallers checks that a value beyond the cache's bound is loaded
// once for all concurrent callers.
func TestTooLargeValueIsSharedByConcurrentCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New[*int](1 << 10)
		require.NoError(t, err)
		defer c.Close()
		loads, begin := 0, make(chan struct{})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				v, err := c.Get(t.Context(), "k", func(context.Context) (*int, int64, error) {
					loads++
					<-begin
					return new(int), 1 << 20, nil
				})
				if err != nil || v == nil {
					t.Errorf("got %v, %v", v, err)
				}
			})
		}
		synctest.Wait()
		close(begin)
		group.Wait()
		require.Equal(t, 1, loads)
	})
}

// TestStreamThatWaitsForItsOwnLoadIsNotBlocked: of two lanes of a stream one loads a
// footer and the other waits for it. The stream continues by itself, so another one
// keeps waiting for the memory that it holds.
func TestStreamThatWaitsForItsOwnLoadIsNotBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := cache.New[*int](1 << 10)
		require.NoError(t, err)
		defer c.Close()
		b := budget.New(100)
		one, stream := b.Enter(t.Context(), "")
		other, otherStream := b.Enter(t.Context(), "")
		defer otherStream.Release()
		held, err := b.Reserve("of the one", 60)
		require.NoError(t, err)
		begin := make(chan struct{})
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				_, err := c.Get(one, "k", func(context.Context) (*int, int64, error) {
					<-begin
					return new(int), 8, nil
				})
				if err != nil {
					t.Errorf("a lane got %v", err)
				}
			})
		}
		waited := make(chan error, 1)
		go func() { waited <- b.Await(other, "of the other", 50) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Errorf("the other did not wait: %v", err)
			waited <- err
		default:
		}
		close(begin)
		group.Wait()
		held.Release()
		stream.Release()
		require.NoError(t, <-waited)
	})
}

// TestForget: a value that was forgotten is loaded again, and its holders keep the old one.
func TestForget(t *testing.T) {
	t.Parallel()
	c := newCache(t)
	load := func(context.Context) (*int, int64, error) { return new(int), 8, nil }
	first, err := c.Get(context.Background(), "k", load)
	require.NoError(t, err)
	c.Forget("k")
	c.Forget("unknown")
	second, err := c.Get(context.Background(), "k", load)
	require.NoError(t, err)
	require.NotSame(t, first, second)
	third, err := c.Get(context.Background(), "k", load)
	require.NoError(t, err)
	require.Same(t, second, third)
}
