package flight

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight/call"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/flight/limits"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
)

// TestCallsPlanInSlots: each call that makes a plan has a slot until its plan and its answer are made, or its client has gone.
//
// spec: wire-47
func TestCallsPlanInSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	planning, proceed := make(chan struct{}, 16), make(chan struct{})
	s := serve(t, Options{PlanSlots: 1, Loader: altered{Loader: w.loader(), plan: func(q dataset.Query) (loader.Planned, error) {
		planning <- struct{}{}
		<-proceed
		return w.loader().Plan(t.Context(), q)
	}}})
	s.server.callSlots = call.NewQueue(1, 100, time.Now, call.ManyPlans)
	done := make(chan error, 2)
	plan := func(ctx context.Context) {
		_, err := s.GetFlightInfo(ctx, flighttest.Command(`{"dataset":"homefeed"}`))
		done <- err
	}
	go plan(t.Context())
	<-planning
	ctx, cancel := context.WithCancel(t.Context())
	go plan(ctx)
	waiting := func() int { return s.server.callSlots.Counts().Waiting }
	require.Eventually(t, func() bool { return waiting() == 1 }, 10*time.Second, time.Millisecond)
	require.Positive(t, s.server.callSlots.Counts().Bytes)
	require.Empty(t, planning)
	cancel()
	code, _ := flighttest.FailureOf(t, <-done, nil)
	require.Equal(t, codes.Canceled, code)
	require.Eventually(t, func() bool { return waiting() == 0 }, 10*time.Second, time.Millisecond)
	close(proceed)
	require.NoError(t, <-done)
	for _, query := range []string{`{"dataset":"homefeed"}`, `{"dataset":"homefeed","filter":"item > 3","count":"exact","tail":"drop"}`} {
		s.readAll(t, query)
	}
	for _, slots := range []*limits.Queue{s.server.callSlots, s.server.planSlots} {
		require.Eventually(t, func() bool { return slots.Counts().Taken == 0 }, 10*time.Second, time.Millisecond)
	}
}

// TestKnownPlansDoNotWait: a call whose plan is known does not wait for those that make theirs, and none that makes a plan has
// a slot for known ones meanwhile. Many tickets take as long as a plan.
//
// spec: wire-47
func TestKnownPlansDoNotWait(t *testing.T) {
	t.Parallel()
	s := serveWorld(t, Options{PlanSlots: 1})
	s.server.callSlots = call.NewQueue(1, 100, time.Now, call.ManyPlans)
	claim := &limits.Claim{Client: "another"}
	require.NoError(t, s.server.planSlots.Enter(t.Context(), claim, call.SlotWait, nil))
	done := make(chan error, 2)
	plan := func(query string) {
		_, err := s.GetFlightInfo(t.Context(), flighttest.Command(query))
		done <- err
	}
	waiting := func(n int) {
		require.Eventually(t, func() bool {
			return s.server.planSlots.Counts().Waiting == n
		}, 10*time.Second, time.Millisecond)
	}
	go plan(`{"dataset":"homefeed"}`)
	waiting(1)
	claim.Leave()
	require.NoError(t, <-done)
	claim = &limits.Claim{Client: "another"}
	require.NoError(t, s.server.planSlots.Enter(t.Context(), claim, call.SlotWait, nil))
	s.server.options.Loader = altered{Loader: s.server.options.Loader, plan: func(q dataset.Query) (loader.Planned, error) {
		return s.server.options.Loader.(altered).Loader.PlanFor(context.Background(), loader.PlanRequest{Query: q}) // as if the plan was known
	}}
	go plan(`{"dataset":"homefeed"}`)
	require.NoError(t, <-done)
	go plan(manyShards)
	waiting(1)
	claim.Leave()
	require.NoError(t, <-done)
}

// A call that is refused takes a slot before its body is decoded, too.
//
// spec: wire-47
func TestRefusedActionsTakeSlots(t *testing.T) {
	t.Parallel()
	s, _ := people{}.server(t, Options{})
	s.server.callSlots = call.NewQueue(1, 100, time.Now, call.ManyPlans)
	claim := &limits.Claim{Client: "another"}
	require.NoError(t, s.server.callSlots.Enter(t.Context(), claim, call.SlotWait, nil))
	ended := make(chan error, 2)
	for _, name := range []string{"explain", "nothing"} {
		go func(ctx context.Context) {
			_, err := s.act(ctx, name, []byte(`{"dataset": "secret"}`))
			ended <- err
		}(carol(t))
	}
	require.Eventually(t, func() bool { return s.server.callSlots.Counts().Waiting == 2 }, time.Minute, time.Millisecond)
	claim.Leave()
	for range 2 {
		code, _ := flighttest.FailureOf(t, <-ended, nil)
		require.Contains(t, []codes.Code{codes.PermissionDenied, codes.InvalidArgument}, code)
	}
}
