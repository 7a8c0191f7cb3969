package main

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

// How large the Go heap may grow beside the memory budget, see heapLimit.
const (
	heapBeside  = 160 << 20 // bytes on top of five quarters of the budget
	processRest = 96 << 20  // bytes of the process that are not the Go runtime's: its program, mapped files
	heapShare   = 90        // percent of the machine that the heap may have at most
)

// garbageShare is the garbage that may lie beside live memory, in percent of
// it. Live memory is mostly buffers without pointers, which cost the collector
// little, so it may come often: Go's default of 100 would double the peak.
const garbageShare = 25

// heapLimit is the soft limit of Go's memory, in bytes, for a budget and a
// machine (0: not known): five quarters of the budget and 160 MiB, so that the
// process stays within 96 MiB more, and never more than 90 % of the machine.
//
// Near a soft limit the collector runs all the time, at up to half of the CPU.
// It does so for garbage only as long as what lives stays below the limit, and
// that it does: live are what is reserved, at most the budget; remembered plans
// and footers, a sixteenth of it, and manifests, a 64th; and what two pools keep,
// a sixteenth and 64 MiB. Seven 64ths and 96 MiB are left for what the pools round
// up, about a sixteenth, for the runtime, for gRPC, and for garbage. A machine that
// is too small for its budget can get there: boundHeap warns of it.
func heapLimit(budget, machine int64) int64 {
	budget = min(budget, math.MaxInt64/2)
	limit := budget + budget/4 + heapBeside
	if machine > 0 {
		limit = min(limit, machine/100*heapShare)
	}
	return limit
}

// kept is how many freed bytes each of the pools keeps under a budget, so that
// heapLimit is right.
func kept(budget int64) int64 { return min(batch.MostKept, 32<<20+budget/32) }

// boundHeap keeps garbage from filling the machine where the budget would not.
// GOGC and GOMEMLIMIT, if set, decide.
func (p process) boundHeap(log *slog.Logger, budget, machine int64) {
	if p.orEnv("", "GOGC") == "" {
		debug.SetGCPercent(garbageShare)
	}
	if p.orEnv("", "GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit(budget, machine))
	}
	if peak := heapLimit(budget, 0); machine > 0 && peak > machine-processRest {
		log.Warn("the memory budget is too large for this machine or container: lower memory, or give it more",
			"memory", budget, "may_need", peak+processRest, "has", machine)
	}
}

const (
	// quietFor is how long nothing happens before memory is given back: longer
	// than from one stream of a program to its next, so that these find their
	// memory where the one before left it.
	quietFor = 5 * time.Second
	// quietBytes is what is allocated in that time where nothing happens, at
	// most: by health checks and whoever reads the metrics.
	quietBytes = 16 << 20
)

// idleMemory gives memory back to the system that nobody uses any more. What
// streams have left behind would otherwise stay: in the pools, which keep it
// for the next stream, and as garbage, because a process that does nothing
// never collects.
//
// It looks every quietFor. The pools give up then what lay idle since the look
// before, also while streams run. When nothing has happened between two looks,
// the garbage is collected and all free memory returned, once: a server under
// load is never stopped for it.
type idleMemory struct {
	pools     []batch.Trimming
	allocated func() uint64 // bytes ever allocated on the heap
	giveBack  func()        // collects, and returns what is free

	before uint64 // allocated at the last look
	due    bool   // something has happened since memory was last given back
}

func newIdleMemory(pools []batch.Trimming) *idleMemory {
	return &idleMemory{pools: pools, allocated: allocated, giveBack: giveBack}
}

// run looks until ctx ends.
func (m *idleMemory) run(ctx context.Context) {
	ticker := time.NewTicker(quietFor)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.look()
		}
	}
}

func (m *idleMemory) look() {
	now := m.allocated()
	happened := now-m.before > quietBytes
	m.before = now
	for _, pool := range m.pools {
		used := pool.Trim()
		happened = happened || used
	}
	if !happened && m.due {
		m.giveBack()
	}
	m.due = happened
}

// allocated returns the bytes ever allocated on the heap.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// giveBack collects twice: lists of free memory such as gRPC's survive one
// collection.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
