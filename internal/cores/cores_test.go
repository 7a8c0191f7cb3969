package cores_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachCallsEveryNumberOnce(t *testing.T) {
	for _, on := range []*cores.Cores{nil, cores.New(0), cores.New(1), cores.New(2), cores.New(7)} {
		for _, n := range []int{0, 1, 2, 100} {
			calls := make([]atomic.Int64, n)
			require.NoError(t, on.Each(n, func(i int) error {
				calls[i].Add(1)
				return nil
			}))
			for i := range calls {
				require.EqualValues(t, 1, calls[i].Load())
			}
		}
	}
}

// The calls of several goroutines together use as many goroutines as there are cores, and each
// caller makes calls even if no core is idle.
func TestCoresAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, callers = 4, 6
		on, proceed := cores.New(limit), make(chan struct{})
		var running atomic.Int64
		var group sync.WaitGroup
		start := func() {
			group.Go(func() {
				_ = on.Each(100, func(int) error {
					running.Add(1)
					defer running.Add(-1)
					<-proceed
					return nil
				})
			})
			synctest.Wait()
		}
		start()
		require.EqualValues(t, limit, running.Load(), "one caller uses all cores")
		for range callers - 1 {
			start()
		}
		require.EqualValues(t, limit+callers-1, running.Load(), "the others work on their own goroutines alone")
		close(proceed)
		group.Wait()
	})
}

// Work that is divided within divided work does not wait for cores.
func TestDividedWorkMayBeDivided(t *testing.T) {
	on := cores.New(3)
	var calls atomic.Int64
	require.NoError(t, on.Each(5, func(int) error {
		return on.Each(5, func(int) error {
			calls.Add(1)
			return nil
		})
	}))
	require.EqualValues(t, 25, calls.Load())
}

func TestErrorsEndTheWork(t *testing.T) {
	for _, limit := range []int{1, 3} {
		on, calls := cores.New(limit), atomic.Int64{}
		err := on.Each(1000, func(i int) error {
			calls.Add(1)
			if i >= 2 {
				return fmt.Errorf("number %d", i)
			}
			return nil
		})
		require.EqualError(t, err, "number 2", "the lowest number's error is returned")
		require.LessOrEqual(t, calls.Load(), int64(2+limit))
	}
}

// A panic on another goroutine, which would end the process, is an error of the caller. A panic on
// the caller's goroutine goes on. In both cases, the cores are idle again afterwards.
func TestPanicsDoNotEndTheProcess(t *testing.T) {
	for _, onCaller := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			on, other, caller := cores.New(2), make(chan struct{}), goroutine()
			work := func() error {
				return on.Each(100, func(int) error {
					isCaller := goroutine() == caller
					if isCaller {
						<-other // both goroutines make a call
					} else {
						close(other)
					}
					if isCaller == onCaller {
						panic("broken")
					}
					return nil
				})
			}
			if onCaller {
				require.PanicsWithValue(t, "broken", func() { _ = work() })
			} else {
				require.Equal(t, fault.Internal, fault.KindOf(work()))
			}
			synctest.Wait()
			other = make(chan struct{})
			var calls atomic.Int64
			require.NoError(t, on.Each(2, func(int) error { // needs both cores at the same time
				if calls.Add(1) == 2 {
					close(other)
				}
				<-other
				return nil
			}))
		})
	}
}

// goroutine returns the number of the goroutine that calls it.
func goroutine() string {
	var stack [64]byte
	return strings.Fields(string(stack[:runtime.Stack(stack[:], false)]))[1]
}
