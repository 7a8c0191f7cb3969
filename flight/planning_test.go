package flight

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/loader"
)

// TestStatusShowsPlans has two calls whose plans take long: the first waits for its tables, and then for lists of files; the second waits
// for a slot.
//
// spec: status-18
func TestStatusShowsPlans(t *testing.T) {
	t.Parallel()
	var clock hand
	w := newWorld(t)
	asked, proceed := make(chan loader.PlanRequest, 1), make(chan struct{})
	s := serve(t, Options{PlanSlots: 1, Clock: clock.read, Ticks: clock.read, Loader: altered{Loader: w.loader(), asked: func(r loader.PlanRequest) {
		if r.Query.Job == "first" {
			asked <- r
			<-proceed
			return
		}
		_ = r.BeforeBuild()
	}}})
	require.Empty(t, s.status(t.Context(), t).Planning)
	done := make(chan error, 2)
	plan := func(query string) {
		_, err := s.GetFlightInfo(t.Context(), flighttest.Command(query))
		done <- err
	}
	go plan(`{"dataset":"homefeed","job":"first"}`)
	first := <-asked
	first.Step(loader.TablesStep)
	clock.advance(3 * time.Second)
	got := s.status(t.Context(), t).Planning
	require.Len(t, got, 1)
	require.Len(t, got[0].ID, 16)
	require.Equal(t, PlanningStatus{ID: got[0].ID, Job: "first", Dataset: "homefeed", Started: noon(), OpenMS: 3000, Waiting: "tables"}, got[0])
	require.NoError(t, first.BeforeBuild())
	first.Step(loader.FilesStep)
	require.Equal(t, "files", s.status(t.Context(), t).Planning[0].Waiting)
	go plan(`{"dataset":"homefeed","job":"second"}`)
	require.Eventually(t, func() bool {
		all := s.status(t.Context(), t).Planning
		return len(all) == 2 && all[1].Job == "second" && all[1].Waiting == "slot" && s.server.planSlots.Counts().Waiting == 1
	}, time.Minute, time.Millisecond)
	first.Step(loader.BuildStep)
	require.Empty(t, s.status(t.Context(), t).Planning[0].Waiting)
	close(proceed)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Empty(t, s.status(t.Context(), t).Planning)
}
