package engine

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// The heap limit is 5/4 of the budget plus 160 MiB, but at most 90 % of the machine's memory.
// Reservations, caches and pools fit in it.
func TestHeapLimit(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ budget, machine, want int64 }{
		{256 * mib, 0, 480 * mib},
		{1024 * mib, 24 << 30, 1440 * mib},
		{4096 * mib, 6000 * mib, 5280 * mib},
		{4096 * mib, 1000 * mib, 900 * mib},
	} {
		require.InDelta(t, c.want, heapLimit(c.budget, c.machine), 100, "%d of %d", c.budget, c.machine)
	}
	require.Positive(t, heapLimit(math.MaxInt64, 0))
	for budget := int64(mib); budget <= 1<<40; budget *= 2 {
		live := budget + min(5*maxCache/2, 5*(budget/cacheDivisor)/2) + 2*maxPooled(budget)
		require.GreaterOrEqual(t, heapLimit(budget, 0)-live, int64(64*mib), "budget %d", budget)
	}
}

// Environment variables override the limits. A budget that is too large for the machine is logged.
func TestEnvironmentOverridesHeapLimits(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(-1)
	debug.SetGCPercent(percent)
	defer func() { debug.SetMemoryLimit(limit); debug.SetGCPercent(percent) }()
	bound := func(env map[string]string, budget, machine int64) string {
		var said bytes.Buffer
		BoundHeap(slog.New(slog.NewTextHandler(&said, nil)), func(name string) string { return env[name] }, budget, machine)
		return said.String()
	}
	require.Empty(t, bound(map[string]string{"GOGC": "200", "GOMEMLIMIT": "9GiB"}, 1<<30, 24<<30))
	require.Equal(t, limit, debug.SetMemoryLimit(-1))
	require.Equal(t, percent, debug.SetGCPercent(percent))

	require.Empty(t, bound(nil, 1<<30, 24<<30))
	require.Equal(t, heapLimit(1<<30, 24<<30), debug.SetMemoryLimit(-1))
	require.Equal(t, garbageShare, debug.SetGCPercent(percent))

	require.Empty(t, bound(nil, 1<<30, 1536<<20))
	said := bound(nil, 1<<30, 1536<<20-1)
	require.Contains(t, said, "level=WARN")
	require.Contains(t, said, "memory=1073741824 may_need=1610612736 has=1610612735")
	require.Empty(t, bound(nil, 1<<30, 0), "the memory of the machine is unknown")

	require.Empty(t, bound(nil, 64<<20, 24<<30))
	said = bound(nil, 64<<20-1, 24<<30)
	require.Contains(t, said, "level=WARN")
	require.Contains(t, said, "memory=67108863 at_least=67108864")
}

// use allocates and frees 1 MiB.
func use(p batch.Trimming) { p.Free(p.Allocate(1 << 20)) }

// Memory is returned once after idleAfter without activity, and never while streams run, however
// short.
func TestIdleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heap atomic.Uint64
		var given atomic.Int64
		pools := []batch.Trimming{batch.NewAllocator(), batch.NewAllocator()}
		m := &idleMemory{pools: []trimmed{pools[0], pools[1]}, allocated: heap.Load, free: func() { given.Add(1) }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { m.run(ctx); close(done) }()
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		wait(time.Minute)
		require.Zero(t, given.Load(), "the process has been idle from the start")
		for _, p := range pools { // use of any pool counts as activity
			for range 100 { // short streams, one after the other
				wait(idleAfter / 2)
				use(p)
			}
			require.Zero(t, given.Load())
			wait(2*idleAfter + time.Second)
			require.EqualValues(t, 1, given.Load())
			wait(time.Hour)
			require.EqualValues(t, 1, given.Load(), "once")
			given.Store(0)
		}

		heap.Add(maxIdleBytes)
		wait(time.Minute)
		require.Zero(t, given.Load(), "a health check")
		heap.Add(maxIdleBytes + 1)
		wait(2*idleAfter + time.Second)
		require.EqualValues(t, 1, given.Load(), "a plan leaves garbage too")
		cancel()
		<-done
	})
}

// Unused buffers of pools are dropped before memory is returned.
func TestIdleMemoryTrimsPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := batch.NewAllocator()
		var before, after *byte
		b := pool.Allocate(1 << 20)
		before = &b[0]
		pool.Free(b)
		m := &idleMemory{pools: []trimmed{pool}, allocated: func() uint64 { return 0 }}
		m.free = func() { after = &pool.Allocate(1 << 20)[0] }
		m.check()
		m.check()
		require.NotNil(t, after)
		require.NotSame(t, before, after)
	})
}

// Garbage is collected even if the process allocates nothing.
func TestFreeMemoryCollectsGarbage(t *testing.T) {
	before := allocated()
	held := make([]byte, 32<<20)
	gone := make(chan struct{})
	runtime.AddCleanup(&held[0], func(c chan struct{}) { close(c) }, gone)
	runtime.KeepAlive(held)
	require.GreaterOrEqual(t, allocated()-before, uint64(32<<20))
	freeMemory()
	<-gone
}
