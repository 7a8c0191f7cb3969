package loader_test

import (
	"runtime"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/joiner/spill"
)

// watch records which ways of spilling the joiner uses in a random world. It recognizes
// them by the functions that create and read stores, so the product needs no hook. It
// does not distinguish concurrent streams: it counts whether something happened at all.
type watch struct {
	mu   sync.Mutex
	seen scenario.Coverage
	done bool // a portion was read, so the next one is another
}

// disk wraps a creator of stores and records its callers.
func (w *watch) disk(create func(what string) (spill.Store, error)) func(what string) (spill.Store, error) {
	return func(what string) (spill.Store, error) {
		by := callers()
		w.mu.Lock()
		for function, way := range map[string]string{
			"Partition": "divided by bucket", "Slice": "sliced",
			"(*matchPass).writeWinners": "a slice that does not fit", "(*matchPass).writeAll": "a slice that does not fit, of all rows",
		} {
			if by[function] {
				w.seen[way]++
				w.done = false
			}
		}
		w.mu.Unlock()
		s, err := create(what)
		if err != nil {
			return nil, err
		}
		return watched{Store: s, watch: w}, nil
	}
}

// watched is a store whose reads are recorded.
type watched struct {
	spill.Store
	watch *watch
}

// Read implements spill.Store.
func (s watched) Read(number int) (arrow.RecordBatch, error) {
	if by := callers(); by["(*matchPass).eachPortion"] {
		s.watch.mu.Lock()
		if by["(*matchPass).load"] && s.watch.done {
			s.watch.seen["a slice in several portions"]++
		}
		s.watch.done = !by["(*matchPass).load"]
		s.watch.mu.Unlock()
	}
	return s.Store.Read(number)
}

// callers returns the names of the functions of package spill on the stack.
func callers() map[string]bool {
	var stack [64]uintptr
	names := map[string]bool{}
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if _, name, ok := strings.Cut(f.Function, "/joiner/spill."); ok {
			names[name] = true
		}
	}
	return names
}
