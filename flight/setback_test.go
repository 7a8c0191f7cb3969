package flight

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// hoarder is a stream whose batches each need two units of a budget, one after the other.
type hoarder struct {
	*canned
	budget *budget.Budget
	ctx    context.Context
	open   *release.Handle // nil: it holds nothing
	held   *budget.Reservation
	second func() // called before the second unit is reserved
}

const unit = 1 << 20

// grow reserves what the next batch needs.
func (h *hoarder) grow() error {
	if h.open == nil {
		ctx, open := h.budget.Enter(h.ctx, "x")
		held, err := h.budget.ReserveFor(ctx, "a batch", 0)
		if err != nil {
			return err
		}
		h.open, h.held = open, held
		if err := held.GrowWait(ctx, unit); err != nil {
			return err
		}
		h.second()
		return held.GrowWait(ctx, unit)
	}
	return nil
}

// close releases all memory.
func (h *hoarder) close() {
	if h.open != nil {
		h.held.Release()
		h.open.Release()
		h.open = nil
	}
}

// hoarders returns the streams of a loader, each with a number of batches. The first streams that
// fill the budget wait for each other before they need more.
func hoarders(b *budget.Budget, batches int) func(ctx context.Context) *canned {
	var mu sync.Mutex
	fill, full := int(b.Limit()/unit), make(chan struct{})
	return func(ctx context.Context) *canned {
		h := &hoarder{canned: &canned{}, budget: b, ctx: ctx}
		h.second = func() {
			mu.Lock()
			if fill--; fill == 0 {
				close(full)
			}
			mu.Unlock()
			select {
			case <-full:
			case <-ctx.Done():
			}
		}
		h.next = func(n int) (arrow.RecordBatch, error) {
			if n == batches {
				return nil, nil //nolint:nilnil // the end of a stream
			}
			if err := h.grow(); err != nil {
				return nil, err
			}
			if n%2 == 1 { // the next batch needs the memory again
				h.close()
			}
			return numbers(3), nil
		}
		h.setBack = func() bool {
			h.close()
			return true
		}
		h.released = h.close
		return h.canned
	}
}

// More streams than the budget carries wait for each other, and all return all of their rows.
//
// spec: wire-52
func TestStreamsBeyondTheBudgetWaitAndThenRun(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{3, 6, 40} {
		b := budget.New(3*unit + unit/2)
		s := serve(t, Options{MaxStreams: slots, Budget: b, Clock: time.Now, Pressed: b.Pressed, Loader: opens(newWorld(t).loader(), hoarders(b, 9))})
		ticket := s.ticket(t, `{"dataset": "homefeed", "columns": ["item"]}`)
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				stream, err := s.DoGet(t.Context(), ticket)
				if err != nil {
					t.Errorf("a stream did not begin: %v", err)
					return
				}
				n := 0
				for {
					m, err := stream.Recv()
					if err != nil {
						if n != 9 || !errors.Is(err, io.EOF) {
							t.Errorf("a stream ended after %d batches of 9: %v", n, err)
						}
						return
					}
					if len(m.GetDataBody()) > 0 {
						n++
					}
				}
			})
		}
		all.Wait()
		require.Zero(t, b.Used())
		require.Zero(t, b.Streams())
	}
}

// lacking sets a stream back that has a slot, and makes it wait for another one.
func (one *asking) lacking(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	one.setBack(errLacks)
	one.cancel, one.done = cancel, make(chan struct{})
	go func() {
		defer close(one.done)
		one.err = one.enter(ctx)
	}()
	synctest.Wait()
}

var errLacks = fault.New(fault.Exhausted, "it lacks memory")

// anyIn returns one of the streams that have slots; nil if there is none.
func anyIn(of []*asking, r *rand.Rand) *asking {
	for _, i := range r.Perm(len(of)) {
		if of[i].in() {
			return of[i]
		}
	}
	return nil
}

// Streams that are set back wait for the memory of others, in order, and not forever.
//
// spec: wire-52
func TestStreamsSetBackWaitForOthers(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, a *admission){
		"until another stream ends": func(t *testing.T, a *admission) {
			one, two, three := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			three.lacking(t)
			two.lacking(t)
			next := ask(t, a, alone("y"))
			require.False(t, two.over() || three.over() || next.over(), "the budget carries one")
			one.Release()
			require.True(t, three.in() && !two.in() && !next.in())
			three.Release()
			require.True(t, two.in() && !next.in())
			two.Release()
			require.True(t, next.in())
			next.Release()
		},
		"until memory is plentiful": func(t *testing.T, a *admission) {
			one, two, three := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			three.lacking(t)
			two.lacking(t)
			next := ask(t, a, alone("y"))
			a.relax(false)
			require.False(t, two.over() || three.over() || next.over())
			a.relax(true)
			require.False(t, two.over() || three.over() || next.over(), "too soon")
			time.Sleep(raiseAfter)
			a.relax(true)
			require.True(t, three.in() && !two.in() && !next.in(), "one more")
			time.Sleep(raiseAfter)
			a.relax(true)
			require.True(t, two.in() && !next.in(), "one more")
			for _, of := range []*asking{one, two, three} {
				of.Release()
			}
			require.True(t, next.in())
			next.Release()
		},
		"but not if all were set back": func(t *testing.T, a *admission) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			one.lacking(t)
			two.lacking(t)
			require.False(t, one.over() || two.over())
			a.relax(false)
			require.True(t, one.in() && !two.in(), "one at a time")
			one.Release()
			require.True(t, two.in())
			two.Release()
		},
		"and not for the slots of siblings": func(t *testing.T, a *admission) {
			one, two := ask(t, a, alone("x")), ask(t, a, shard("x", "p", 0, 2))
			two.lacking(t)
			sibling := ask(t, a, shard("x", "p", 1, 2))
			require.False(t, sibling.over() || two.over(), "no slot is kept")
			one.Release()
			require.True(t, two.in() && !sibling.in())
			two.Release()
			require.True(t, sibling.in())
			sibling.Release()
		},
		"a mix has all of its slots if no stream is open": func(t *testing.T, a *admission) {
			one := ask(t, a, alone("x"))
			one.lacking(t)
			one.cancel()
			require.True(t, one.over())
			mix := alone("y")
			mix.mix = mixHeader{"m", 2}
			first, second := ask(t, a, mix), ask(t, a, mix)
			require.True(t, first.in() && second.in())
			first.Release()
			second.Release()
		},
		"while new streams name the memory budget": func(t *testing.T, a *admission) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			two.lacking(t)
			next := ask(t, a, alone("y"))
			time.Sleep(maxWait)
			require.True(t, two.over() && next.over())
			require.ErrorContains(t, next.err, "1 stream is open, as many as the memory budget carries")
			one.Release()
		},
		"longer while others leave": func(t *testing.T, a *admission) {
			one, two, three := ask(t, a, alone("x")), ask(t, a, alone("x")), ask(t, a, alone("x"))
			three.lacking(t)
			two.lacking(t)
			next := ask(t, a, alone("y"))
			time.Sleep(maxWait - time.Second)
			one.Release()
			require.True(t, three.in())
			time.Sleep(maxWait - time.Second)
			require.True(t, three.mayRetry(), "one has left since")
			require.False(t, two.over() || next.over())
			time.Sleep(time.Second)
			require.True(t, two.over() && next.over(), "no stream has left for half a minute")
			require.Equal(t, fault.Exhausted, fault.KindOf(two.err))
			require.Equal(t, fault.Exhausted, fault.KindOf(next.err))
			require.False(t, three.mayRetry())
			three.Release()
		},
		"half a minute in all": func(t *testing.T, a *admission) {
			one, two := ask(t, a, alone("x")), ask(t, a, alone("x"))
			two.lacking(t)
			time.Sleep(maxWait - time.Second)
			a.relax(true)
			require.True(t, two.in())
			require.True(t, two.mayRetry())
			two.lacking(t)
			time.Sleep(time.Second)
			require.True(t, two.over())
			require.ErrorIs(t, two.err, errLacks)
			one.Release()
			next := ask(t, a, alone("x"))
			require.True(t, next.in())
			next.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAdmission(4, 75, time.Now)
				check(t, a)
				empty(t, a)
			})
		})
	}
}

// A stream that is not crowded fails at once, and so does one that cannot be undone.
func TestOtherFailuresDoNotSetBack(t *testing.T) {
	a := newAdmission(4, 75, time.Now)
	at := a.of(alone("x"))
	defer at.Release()
	calls := 0
	failing := errors.New("it fails")
	err := at.within(t.Context(), func() error { calls++; return failing }, nil)
	require.ErrorIs(t, err, failing)
	require.Equal(t, 1, calls)
	crowded := crowdedError(t)
	err = at.within(t.Context(), func() error { calls++; return crowded }, func() bool { return false })
	require.ErrorIs(t, err, crowded)
	require.Equal(t, 2, calls)
	require.Equal(t, 1, a.Counts().Taken)
}

// crowdedError returns the failure of a reservation for which other streams leave no room.
func crowdedError(t *testing.T) error {
	b := budget.New(unit)
	_, one := b.Enter(t.Context(), "x")
	defer one.Release()
	_, other := b.Enter(t.Context(), "x")
	defer other.Release()
	held, err := b.Reserve("another stream", unit)
	require.NoError(t, err)
	defer held.Release()
	_, err = b.Reserve("a batch", 1)
	require.True(t, budget.Crowded(err))
	return err
}

// A count for which other streams leave no memory is tried again when it has a slot.
//
// spec: wire-52
func TestCountsThatLackMemoryAreTriedAgain(t *testing.T) {
	t.Parallel()
	w, tries := newWorld(t), 0
	s := serve(t, Options{MaxStreams: 2, Loader: altered{Loader: w.loader(), count: func(ctx context.Context, admit loader.Admit) (*dataset.Counts, error) {
		_, leave, err := admit(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		if tries++; tries < 3 {
			return nil, crowdedError(t)
		}
		return dataset.NewCounts([]int64{9}), nil
	}}})
	_, err := s.GetFlightInfo(t.Context(), command(filtered(`"tail": "drop", "lanes": 1`)))
	require.NoError(t, err)
	require.Equal(t, 3, tries)
}
