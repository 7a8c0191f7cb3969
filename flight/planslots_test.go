package flight

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// planner is a call of a test that plans.
type planner struct {
	leave func()
	err   error
	done  chan struct{}
}

// wantPlan makes a call of a host that wants a slot, and waits until it has it or waits.
func wantPlan(ctx context.Context, p *planSlots, host string, bytes int64) *planner {
	c := &planner{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.leave, c.err = p.enter(ctx, host, bytes)
	}()
	synctest.Wait()
	return c
}

// has reports whether the call has its slot.
func (c *planner) has() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return c.err == nil
	default:
		return false
	}
}

// refused requires that the call was refused.
func (c *planner) refused(t *testing.T) {
	t.Helper()
	synctest.Wait()
	<-c.done
	require.Equal(t, fault.Exhausted, fault.KindOf(c.err))
	require.Positive(t, fault.As(c.err).RetryAfter)
}

// TestPlanSlots: plans have slots, of which one host has its share; a free one goes to the host with the fewest, then to the
// one that has used them least.
//
// spec: wire-47
func TestPlanSlots(t *testing.T) {
	t.Parallel()
	test := func(name string, limit int, do func(*testing.T, *planSlots)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { do(t, newPlanSlots(limit, 50, time.Now)) })
		})
	}
	test("share", 4, func(t *testing.T, p *planSlots) {
		a := []*planner{wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "a", 0)}
		require.True(t, a[0].has())
		require.True(t, a[1].has())
		require.False(t, a[2].has())
		require.True(t, wantPlan(t.Context(), p, "b", 0).has())
		a[0].leave()
		a[0].leave()
		require.True(t, a[2].has())
		require.Equal(t, 3, p.taken)
		for range 4 {
			require.True(t, wantPlan(t.Context(), newPlanSlots(4, 50, time.Now), "", 0).has(), "sockets have no share")
		}
	})
	test("fewest", 2, func(t *testing.T, p *planSlots) {
		a, b := wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "b", 0)
		again, c := wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "c", 0)
		b.leave()
		require.True(t, c.has())
		require.False(t, again.has())
		a.leave()
		require.True(t, again.has())
	})
	test("least used", 1, func(t *testing.T, p *planSlots) {
		a := wantPlan(t.Context(), p, "a", 0)
		time.Sleep(5 * time.Second)
		a.leave()
		b := wantPlan(t.Context(), p, "b", 0)
		again, b2, c := wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "b", 0), wantPlan(t.Context(), p, "c", 0)
		time.Sleep(2 * time.Second)
		b.leave()
		require.True(t, c.has())
		c.leave()
		require.True(t, b2.has())
		b2.leave()
		require.True(t, again.has())
		again.leave()
		time.Sleep(10 * forgetHalf)
		d := wantPlan(t.Context(), p, "d", 0)
		again, b = wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "e", 0)
		d.leave()
		require.True(t, again.has(), "what a used is long ago")
		again.leave()
		require.True(t, b.has())
	})
	test("turns", 1, func(t *testing.T, p *planSlots) {
		first := wantPlan(t.Context(), p, "a", 0)
		again, more := wantPlan(t.Context(), p, "a", 0), wantPlan(t.Context(), p, "a", 0)
		b := wantPlan(t.Context(), p, "b", 0)
		first.leave()
		if !again.has() { // they came at the same time
			again, more = more, again
		}
		require.True(t, again.has(), "b came after a's last turn")
		again.leave()
		require.True(t, b.has())
		require.False(t, more.has())
	})
	test("full", 1, func(t *testing.T, p *planSlots) {
		wantPlan(t.Context(), p, "a", 0)
		var waiting []*planner
		for i := range maxPlanWaits {
			waiting = append(waiting, wantPlan(t.Context(), p, fmt.Sprint("h", i%2), 0))
		}
		wantPlan(t.Context(), p, "h0", 0).refused(t)
		require.False(t, wantPlan(t.Context(), p, "c", 0).has())
		waiting[len(waiting)-1].refused(t)
		require.Len(t, p.waiting, maxPlanWaits)
	})
	test("full of bytes", 1, func(t *testing.T, p *planSlots) {
		wantPlan(t.Context(), p, "a", 0)
		large, small := wantPlan(t.Context(), p, "a", maxPlanWaitBytes-10), wantPlan(t.Context(), p, "b", 10)
		require.Len(t, p.waiting, 2)
		require.False(t, wantPlan(t.Context(), p, "b", 10).has())
		large.refused(t)
		require.False(t, small.has())
		require.EqualValues(t, 20, p.bytes)
	})
	test("ended", 1, func(t *testing.T, p *planSlots) {
		a := wantPlan(t.Context(), p, "a", 0)
		ctx, cancel := context.WithCancel(t.Context())
		gone, late := wantPlan(ctx, p, "b", 1), wantPlan(t.Context(), p, "c", 1)
		cancel()
		synctest.Wait()
		<-gone.done
		require.ErrorIs(t, gone.err, context.Canceled)
		time.Sleep(planWait)
		late.refused(t)
		require.Empty(t, p.waiting)
		require.Zero(t, p.bytes)
		a.leave()
		require.Zero(t, p.taken)
	})
	test("many hosts", 1, func(t *testing.T, p *planSlots) {
		for i := range maxKnownHosts + 1 {
			wantPlan(t.Context(), p, strconv.Itoa(i), 0).leave()
		}
		require.Len(t, p.hosts, 1)
	})
}

// TestCallsPlanInSlots: each call that makes a plan has a slot until its plan and its answer are made, or its client has gone.
//
// spec: wire-47
func TestCallsPlanInSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	planning, plan := make(chan struct{}, 16), make(chan struct{})
	s := serve(t, Options{PlanSlots: 1, Loader: altered{Loader: w.loader(), plan: func(q dataset.Query) (loader.Planned, error) {
		planning <- struct{}{}
		<-plan
		return w.loader().Plan(t.Context(), q)
	}}})
	s.server.callSlots.limit = 1
	done := make(chan error, 2)
	call := func(ctx context.Context) {
		_, err := s.GetFlightInfo(ctx, command(`{"dataset":"homefeed"}`))
		done <- err
	}
	go call(t.Context())
	<-planning
	ctx, cancel := context.WithCancel(t.Context())
	go call(ctx)
	waiting := func() int {
		s.server.callSlots.mu.Lock()
		defer s.server.callSlots.mu.Unlock()
		return len(s.server.callSlots.waiting)
	}
	require.Eventually(t, func() bool { return waiting() == 1 }, 10*time.Second, time.Millisecond)
	require.Positive(t, s.server.callSlots.bytes)
	require.Empty(t, planning)
	cancel()
	code, _ := failure(t, <-done, nil)
	require.Equal(t, codes.Canceled, code)
	require.Eventually(t, func() bool { return waiting() == 0 }, 10*time.Second, time.Millisecond)
	close(plan)
	require.NoError(t, <-done)
	for _, query := range []string{`{"dataset":"homefeed"}`, `{"dataset":"homefeed","filter":"item > 3","count":"exact","tail":"drop"}`} {
		s.readAll(t, query)
	}
	for _, slots := range []*planSlots{s.server.callSlots, s.server.planSlots} {
		require.Eventually(t, func() bool {
			slots.mu.Lock()
			defer slots.mu.Unlock()
			return slots.taken == 0
		}, 10*time.Second, time.Millisecond)
	}
}

// TestKnownPlansDoNotWait: a call whose plan is known does not wait for those that make theirs, and none that makes a plan has
// a slot for known ones meanwhile. Many tickets take as long as a plan.
//
// spec: wire-47
func TestKnownPlansDoNotWait(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{PlanSlots: 1})
	s.server.callSlots.limit = 1
	leave, err := s.server.planSlots.enter(t.Context(), "another", 0)
	require.NoError(t, err)
	done := make(chan error, 2)
	call := func(query string) {
		_, err := s.GetFlightInfo(t.Context(), command(query))
		done <- err
	}
	waiting := func(n int) {
		require.Eventually(t, func() bool {
			s.server.planSlots.mu.Lock()
			defer s.server.planSlots.mu.Unlock()
			return len(s.server.planSlots.waiting) == n
		}, 10*time.Second, time.Millisecond)
	}
	go call(`{"dataset":"homefeed"}`)
	waiting(1)
	leave()
	require.NoError(t, <-done)
	leave, err = s.server.planSlots.enter(t.Context(), "another", 0)
	require.NoError(t, err)
	s.server.options.Loader = altered{Loader: s.server.options.Loader, plan: func(q dataset.Query) (loader.Planned, error) {
		return s.server.options.Loader.(altered).Loader.Plan(context.Background(), q) // as if the plan was known
	}}
	go call(`{"dataset":"homefeed"}`)
	require.NoError(t, <-done)
	go call(manyShards)
	waiting(1)
	leave()
	require.NoError(t, <-done)
}
