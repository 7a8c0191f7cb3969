package changes_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/stage"
)

// reading is a Verifier whose calls last until they may end.
type reading struct{ begun, end chan struct{} }

func (r reading) Verify(ctx context.Context, _ loader.PlanRequest, _ func(loader.VerifyProgress)) (*loader.Verification, error) {
	r.begun <- struct{}{}
	select {
	case <-r.end:
	case <-ctx.Done():
	}
	return &loader.Verification{}, ctx.Err()
}

// The check of the readers of a table takes the slot of a stream, and does not wait for one.
//
// spec: stage-156, stage-162, stage-171
func TestReadersAreCheckedOnlyInAFreeSlot(t *testing.T) {
	w, streams, limit := &writtenRows{}, reading{make(chan struct{}), make(chan struct{})}, budget.New(1<<30)
	s := serveTables(t, w, flight.Options{Budget: limit, Verifier: streams, MaxStreams: 1})
	staged := func(command string) []stage.ReaderCheck {
		p := put(t, s.Client, command, batchtest.IDSchema())
		p.rows(t, batchtest.IDs(0, 3)).declare(t, 3)
		got, err := p.answers()
		require.NoError(t, err)
		return got[len(got)-1].Result.Readers
	}
	for range 2 { // the slot is returned
		require.Equal(t, []stage.ReaderCheck{{Dataset: "homefeed", Entry: "before the change of ml.history", Rows: 7}}, staged(`{"stage": {"table": "ml.history"}}`))
	}
	require.Nil(t, staged(`{"stage": {"table": "ml.history", "no_check": true}}`))

	done := make(chan error, 1)
	go func() {
		_, err := results(t.Context(), s, "verify", `{"dataset": "homefeed"}`)
		done <- err
	}()
	<-streams.begun
	require.Equal(t, []stage.ReaderCheck{{Dataset: "homefeed", Entry: "before the change of ml.history", Rows: 7, NotMeasured: "busy"}}, staged(`{"stage": {"table": "ml.history"}}`))
	close(streams.end)
	require.NoError(t, <-done)
	s.quiet(t)
	require.Zero(t, limit.Used())
}

// The results of undo, promote, demote and restore have the readers of the table, which are planned before the
// change.
//
// spec: change-13
func TestReadersAreCheckedAfterChanges(t *testing.T) {
	s := serveTables(t, &writtenRows{}, flight.Options{Promoter: &promoted{}})
	for _, c := range []struct{ action, body, table string }{
		{"undo", `{"table": "ml.history", "from": 7, "to": 8`, "ml.history"},
		{"promote", `{"dataset": "homefeed", "entries": ["history"]`, "ml.impressions"},
		{"demote", `{"table": "ml.impressions", "columns": ["a"]`, "ml.impressions"},
	} {
		for flags, checked := range map[string]bool{`}`: true, `, "no_check": true}`: false, `, "dry_run": true}`: false} {
			if c.action == "undo" && strings.Contains(flags, "dry_run") {
				continue
			}
			got, err := results(t.Context(), s, c.action, c.body+flags)
			require.NoError(t, err)
			last := got[len(got)-1]
			if checked {
				require.Contains(t, last, `"readers":[{"dataset":"homefeed","entry":"before the change of `+c.table+`",`, c.action)
			} else {
				require.NotContains(t, last, "readers", c.action)
			}
		}
	}
	s.quiet(t)
}
