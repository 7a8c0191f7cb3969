package engine

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/penstock/penstock/internal/batch"
)

// How large the Go heap may grow beyond the memory budget: see heapLimit.
const (
	heapBeside  = 160 << 20 // bytes on top of five quarters of the budget
	processRest = 96 << 20  // bytes of the process outside the Go runtime: its program, mapped files
	heapShare   = 90        // the maximum percentage of the machine's memory
)

// garbageShare is GOGC: the garbage that may accumulate, in percent of live memory. Live
// memory is mostly buffers without pointers, which cost the collector little, so it may run
// often: Go's default of 100 would double the peak.
const garbageShare = 25

// heapLimit returns the soft limit of Go's memory, in bytes, for a budget and the memory of a
// machine (0: unknown): 5/4 of the budget plus 160 MiB, so that the process stays within
// 96 MiB more, but at most 90 % of the machine.
//
// Near its soft limit, the collector runs all the time, at up to half of the CPU. Live memory
// must therefore stay below the limit. It consists of reservations, at most the budget; cached
// plans and footers, 1/16 of the budget, and metadata of tables, 1/64; and the free buffers of two
// pools, 1/16 and 64 MiB. That leaves 7/64 and 96 MiB for what the pools round up (about 1/16),
// for the runtime, for gRPC, and for garbage. Only a machine that is too small for its budget
// can reach the limit: BoundHeap logs a warning.
func heapLimit(budget, machine int64) int64 {
	budget = min(budget, math.MaxInt64/2)
	limit := budget + budget/4 + heapBeside
	if machine > 0 {
		limit = min(limit, machine/100*heapShare)
	}
	return limit
}

// maxPooled returns how many free bytes each of the two pools may keep under a budget: what
// heapLimit assumes.
func maxPooled(budget int64) int64 { return min(batch.MaxFree, 32<<20+budget/32) }

// BoundHeap sets the limits of the collector for a memory budget, and the memory of a machine (0: unknown). GOGC and
// GOMEMLIMIT override them.
func BoundHeap(log *slog.Logger, env func(name string) string, budget, machine int64) {
	if env("GOGC") == "" {
		debug.SetGCPercent(garbageShare)
	}
	if env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit(budget, machine))
	}
	if peak := heapLimit(budget, 0); machine > 0 && peak > machine-processRest {
		log.Warn("the memory budget is too large for this machine or container: lower memory, or give it more",
			"memory", budget, "may_need", peak+processRest, "has", machine)
	}
}

const (
	// idleAfter is how long the process is idle before it returns memory: longer than the
	// pause between two streams of a trainer, so that the second reuses the memory of the
	// first.
	idleAfter = 5 * time.Second
	// maxIdleBytes is how much an idle process may allocate in that time, for health checks
	// and scrapes of the metrics.
	maxIdleBytes = 16 << 20
)

// trimmed is a pool of memory. Trim drops what was not used since the last call, and reports whether
// anything was used.
type trimmed interface{ Trim() (used bool) }

// idleMemory returns the memory that ended streams leave behind to the system. It would stay
// otherwise: in the pools, for the next stream, and as garbage, because an idle process does
// not collect.
//
// Every idleAfter, the pools drop the buffers that were not used since the last check, even
// while streams run. If the process was idle between two checks, garbage is collected and all
// free memory returned, once: a server under load is never stopped for it.
type idleMemory struct {
	pools     []trimmed
	allocated func() uint64 // bytes ever allocated on the heap
	free      func()        // collects garbage, and returns free memory

	before uint64 // allocated at the last check
	due    bool   // the process was busy since memory was last returned
}

func newIdleMemory(pools []trimmed) *idleMemory {
	return &idleMemory{pools: pools, allocated: allocated, free: freeMemory}
}

// run checks until ctx ends.
func (m *idleMemory) run(ctx context.Context) {
	ticker := time.NewTicker(idleAfter)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.check()
		}
	}
}

func (m *idleMemory) check() {
	now := m.allocated()
	happened := now-m.before > maxIdleBytes
	m.before = now
	for _, pool := range m.pools {
		used := pool.Trim()
		happened = happened || used
	}
	if !happened && m.due {
		m.free()
	}
	m.due = happened
}

// allocated returns how many bytes the heap has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// freeMemory collects twice: free lists such as gRPC's survive one collection.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
