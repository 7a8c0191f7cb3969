// Package cores divides work among the cores that are idle.
package cores

import (
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// Cores is the number of cores that share the divisible work of a process. It counts the goroutines
// that do such work, and starts no more of them than there are cores. So a single stream uses idle
// cores, and many streams use one core each. Nil and a limit of 1 divide nothing. Cores is safe for
// concurrent use.
type Cores struct {
	limit int64
	busy  atomic.Int64 // goroutines within Each, including the callers
}

// New returns a Cores of a number of cores.
func New(limit int) *Cores { return &Cores{limit: int64(limit)} }

// Default returns the Cores for code that is given none: nil. In invariant builds, it divides work,
// so that tests find work that depends on its order.
func Default() *Cores {
	if invariant.On {
		return New(testedCores)
	}
	return nil
}

const testedCores = 3

// Each calls do with each number from 0 to n-1, and returns when all calls have ended. The caller's
// goroutine makes calls, and so does one more goroutine for each idle core, at most n-1. The calls
// must not depend on one another. After an error or a panic, no further call begins. Each returns
// the error with the lowest number among the calls that were made. A panic on another goroutine
// becomes an Internal error.
func (c *Cores) Each(n int, do func(i int) error) error {
	if c == nil || c.limit <= 1 || n <= 1 {
		for i := range n {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	c.busy.Add(1)
	defer c.busy.Add(-1)
	w := division{n: int64(n), do: do}
	defer w.others.Wait() // also if do panics on this goroutine
	for range n - 1 {
		if !c.enter() {
			break
		}
		w.others.Go(func() {
			defer c.busy.Add(-1)
			w.recovered()
		})
	}
	w.run()
	w.others.Wait()
	return w.err
}

// Groups is like Each for calls that are too short to be worth a core: each core makes consecutive
// calls whose sizes add up to at least the given size, and which do not fail.
func (c *Cores) Groups(n, least int, size func(i int) int, do func(i int)) error {
	ends, sum := make([]int, 0, n), 0 // of the groups
	for i := range n {
		if sum += size(i); sum >= least || i == n-1 {
			ends, sum = append(ends, i+1), 0
		}
	}
	return c.Each(len(ends), func(group int) error {
		first := 0
		if group > 0 {
			first = ends[group-1]
		}
		for i := first; i < ends[group]; i++ {
			do(i)
		}
		return nil
	})
}

// enter counts one more busy goroutine, unless all cores are busy.
func (c *Cores) enter() bool {
	for {
		busy := c.busy.Load()
		if busy >= c.limit {
			return false
		}
		if c.busy.CompareAndSwap(busy, busy+1) {
			return true
		}
	}
}

// division is the work of one call of Each.
type division struct {
	n      int64
	do     func(i int) error
	next   atomic.Int64 // the number of the next call; at least n if no further call begins
	others sync.WaitGroup

	mu     sync.Mutex
	err    error
	number int64 // of the call that returned err
}

// run makes calls until there is none left.
func (w *division) run() {
	ended := false
	defer func() {
		if !ended { // do has panicked
			w.next.Store(w.n)
		}
	}()
	for {
		i := w.next.Add(1) - 1
		if i >= w.n {
			ended = true
			return
		}
		if err := w.do(int(i)); err != nil {
			w.fail(i, err)
		}
	}
}

// recovered is run on another goroutine than the caller's, where a panic would end the process.
func (w *division) recovered() {
	defer func() {
		if p := recover(); p != nil {
			w.fail(w.n, fault.New(fault.Internal, "divided work panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	w.run()
}

// fail records an error, and ends the work.
func (w *division) fail(number int64, err error) {
	w.next.Store(w.n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || number < w.number {
		w.err, w.number = err, number
	}
}
