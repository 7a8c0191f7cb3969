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

// Constants of heapLimit.
const (
	heapBeside  = 160 << 20 // bytes added to 5/4 of the budget
	processRest = 96 << 20  // bytes of the process outside the Go runtime, such as its program and mapped files
	heapShare   = 90        // the maximum percentage of the machine's memory
)

// garbageShare is the value of GOGC: how much garbage may accumulate, in percent of live memory.
// Live memory consists mostly of buffers without pointers. The collector marks them quickly, so it
// can run often. With Go's default of 100, the peak of memory would be twice the live memory.
const garbageShare = 25

// heapLimit returns the soft memory limit of the Go runtime, in bytes, for a budget and the memory
// of a machine (0: unknown): 5/4 of the budget plus 160 MiB, but at most 90 % of the machine. The
// process needs at most 96 MiB more than the limit.
//
// Near its soft limit, the collector runs all the time, at up to half of the CPU. Live memory must
// therefore stay below the limit. It consists of reservations (at most the budget), cached plans
// and footers (1/16 of the budget), metadata of tables (1/64 of the budget), and the free buffers
// of two pools (1/16 of the budget, and 64 MiB). That leaves 7/64 of the budget, and 96 MiB, for
// rounding in the pools (about 1/16 of the budget), for the runtime, for gRPC, and for garbage.
// Live memory can reach the limit only if the machine is too small for the budget. BoundHeap logs a
// warning if the process may outgrow the machine.
func heapLimit(budget, machine int64) int64 {
	budget = min(budget, math.MaxInt64/2)
	limit := budget + budget/4 + heapBeside
	if machine > 0 {
		limit = min(limit, machine/100*heapShare)
	}
	return limit
}

// maxPooled returns how many free bytes each of the two pools may keep, for a memory budget. The
// calculation of heapLimit includes these bytes.
func maxPooled(budget int64) int64 { return min(batch.MaxFree, 32<<20+budget/32) }

// BoundHeap sets the garbage percentage and the soft memory limit of the Go runtime for a memory
// budget and the memory of a machine (0: unknown). The variables GOGC and GOMEMLIMIT override them.
// BoundHeap logs a warning for a budget that is too large for the machine, or too small for most
// tables.
func BoundHeap(log *slog.Logger, env func(name string) string, budget, machine int64) {
	if env("GOGC") == "" {
		debug.SetGCPercent(garbageShare)
	}
	if env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit(budget, machine))
	}
	if peak := heapLimit(budget, 0); machine > 0 && peak > machine-processRest {
		log.Warn("the memory budget is too large for this machine or container: lower `memory` in the config file, or add memory to the machine",
			"memory", budget, "may_need", peak+processRest, "has", machine)
	}
	if budget < usualMemory {
		log.Warn("the memory budget is so small that a single stream or write may end as exhausted: raise `memory` in the config file",
			"memory", budget, "at_least", usualMemory)
	}
}

// usualMemory is the smallest budget without a warning, in bytes. It is the smallest default, and
// lets one call write rows.
const usualMemory = 64 << 20

const (
	// idleAfter is the time between two checks. A process that was idle between two checks returns
	// memory to the system. idleAfter is longer than the usual pause between two streams of a
	// trainer, so that the second stream reuses the memory of the first one.
	idleAfter = 5 * time.Second
	// maxIdleBytes is how many bytes a process may allocate between two checks and still count as
	// idle. It is not 0, because health checks and requests for metrics allocate some memory.
	maxIdleBytes = 16 << 20
)

// trimmed is a pool of memory. Trim drops the free memory that was not used since the last call of
// Trim, and reports whether any memory of the pool was used.
type trimmed interface{ Trim() (used bool) }

// idleMemory returns memory to the system after streams have ended. Otherwise the process would
// keep its pooled buffers for the next stream, and would keep garbage for minutes, because an idle
// process rarely runs the collector.
//
// At each check, the pools drop the buffers that were not used since the last check, even while
// streams run. The first check that finds the process idle after it was busy also collects garbage
// and returns all free memory to the system. So a server under load is never interrupted to collect
// garbage for this purpose.
type idleMemory struct {
	pools     []trimmed
	allocated func() uint64 // total bytes allocated on the heap so far
	free      func()        // collects garbage, and returns free memory to the system

	before uint64 // the result of allocated at the last check
	due    bool   // whether the process was busy before the last check, so that memory must be returned once it is idle
}

func newIdleMemory(pools []trimmed) *idleMemory {
	return &idleMemory{pools: pools, allocated: allocated, free: freeMemory}
}

// run calls check at intervals of idleAfter, until ctx ends.
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

// allocated returns how many bytes were allocated on the heap since the process began, including
// bytes that were freed.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// freeMemory collects garbage, and returns free memory to the system. It collects twice, because
// free lists such as gRPC's survive one collection.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
