package changes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/orphans"
	"github.com/penstock/penstock/loader/policy"
)

// maintained is a TableMaintenance whose changes last until their contexts end, if running is not nil.
type maintained struct {
	running chan struct{} // receives when a change runs
	ended   chan error    // receives why its context ended
	shown   []bool        // whether an error may name the dataset homefeed
	before  time.Time
	failed  error // of Clean
}

func (m *maintained) run(ctx context.Context) error {
	if m.running == nil {
		return nil
	}
	m.running <- struct{}{}
	<-ctx.Done()
	m.ended <- context.Cause(ctx)
	return context.Cause(ctx)
}

func (m *maintained) Compact(ctx context.Context, request maintenance.Compaction, shown func(string) bool) (maintenance.CompactionResult, error) {
	m.shown = append(m.shown, shown("homefeed"))
	request.Progress(maintenance.CompactionProgress{All: 3, Progress: datafile.Progress{RowsRead: 5}})
	request.Progress(maintenance.CompactionProgress{All: 3, Done: 3})
	return maintenance.CompactionResult{Snapshot: 7, Files: request.MinFiles, Bytes: request.FileBytes}, m.run(ctx)
}

func (m *maintained) Restore(ctx context.Context, request maintenance.Restoration, _ bool, _ func(string) bool) (maintenance.RestorationResult, error) {
	return maintenance.RestorationResult{Token: request.Token, Snapshot: request.Snapshot}, m.run(ctx)
}

func (m *maintained) Clean(ctx context.Context, request changes.OrphanSearch) ([]orphans.TableOrphans, error) {
	m.before = request.Before
	if err := request.Held.Grow(1000); err != nil {
		return nil, err
	}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	found := make([]orphans.OrphanFile, 1500)
	return []orphans.TableOrphans{{Table: request.Tables[0], Removed: 1, Files: found}}, m.failed
}

// serveMaintenance serves m.
func serveMaintenance(t *testing.T, m *maintained, o flight.Options) *served {
	t.Helper()
	o.Maintenance = m
	return serveTables(t, &writtenRows{}, o)
}

// results calls an action and returns its results.
func results(ctx context.Context, s *served, name, body string) (out []string, err error) {
	stream, err := s.DoAction(ctx, &arrowflight.Action{Type: name, Body: []byte(body)})
	for err == nil {
		var r *arrowflight.Result
		if r, err = stream.Recv(); err == nil {
			out = append(out, string(r.GetBody()))
		}
	}
	if err.Error() == "EOF" {
		err = nil
	}
	return out, err
}

// spec: change-2, change-3
func TestMaintenanceIsActions(t *testing.T) {
	m := &maintained{}
	s := serveMaintenance(t, m, flight.Options{})
	got, err := results(t.Context(), s, "compact", `{"table": "ml.history", "min_files": 2, "file_size": 1048576, "progress": true}`)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.JSONEq(t, `{"progress": {"step": "rewrite", "rows_read": 5, "of_files": 3}}`, got[0])
	require.JSONEq(t, `{"progress": {"step": "rewrite", "files": 3, "of_files": 3}}`, got[1])
	require.Contains(t, got[2], `{"result":{"snapshot":"7","commits":0,"files":2,"bytes":1048576,`)
	got, err = results(t.Context(), s, "compact", `{"table": "ml.history"}`)
	require.NoError(t, err)
	require.Len(t, got, 1, "no progress")

	got, err = results(t.Context(), s, "restore", `{"table": "ml.history", "snapshot": 5}`)
	require.NoError(t, err)
	require.Contains(t, got[0], `{"result":{"token":"2026`)
	m.failed = fault.New(fault.Unavailable, "the disk hangs")
	got, err = results(t.Context(), s, "orphans", `{"tables": ["ml.history"], "older_than": "5d", "remove": true}`)
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.Unavailable, code)
	require.Len(t, got, 2)
	require.Contains(t, got[0], `{"result":[{"table":"ml.history","removed":1`)
	require.Equal(t, 500, strings.Count(got[1], "location"))
	require.Equal(t, noon().AddDate(0, 0, -5), m.before)
}

// spec: change-6, change-7
func TestMaintenanceTakesASlotAndEndsWithItsClient(t *testing.T) {
	for action, body := range map[string]string{
		"compact": `{"table": "ml.history"}`, "restore": `{"table": "ml.history", "snapshot": 5}`, "orphans": `{"tables": ["ml.history"]}`,
	} {
		m := &maintained{running: make(chan struct{}), ended: make(chan error, 1)}
		limit := budget.New(1 << 30)
		s := serveMaintenance(t, m, flight.Options{Budget: limit, MaxStages: 1})
		ctx, gone := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := results(ctx, s, action, body)
			done <- err
		}()
		<-m.running
		open, _ := s.server.Writes()
		require.Equal(t, 1, open, action)
		if action == "orphans" {
			require.GreaterOrEqual(t, limit.Used(), int64(1000))
		}
		gone()
		require.ErrorIs(t, <-m.ended, context.Canceled, action)
		require.Error(t, <-done)
		require.Eventually(t, func() bool {
			open, _ := s.server.Writes()
			return open == 0 && limit.Used() == 0
		}, time.Minute, time.Millisecond)
	}
}

// spec: change-7
func TestServersThatStopEndMaintenance(t *testing.T) {
	m := &maintained{running: make(chan struct{}), ended: make(chan error, 1)}
	s := serveMaintenance(t, m, flight.Options{})
	done := make(chan error, 1)
	go func() {
		_, err := results(t.Context(), s, "restore", `{"table": "ml.history", "snapshot": 5, "token": "`+testToken+`"}`)
		done <- err
	}()
	<-m.running
	now, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.server.Shutdown(now))
	require.ErrorContains(t, <-m.ended, "shutting down")
	code, _ := flighttest.FailureOf(t, <-done, nil)
	require.Equal(t, codes.Unavailable, code)
}

// spec: change-4, change-8
func TestMaintenanceNeedsTheRightToStage(t *testing.T) {
	p := &policy.Policy{Rules: []policy.AccessRule{{Subjects: []string{"*"}, Write: []string{"ml.history"}, Allow: []policy.Permission{policy.Stage}}}}
	m := &maintained{}
	s := serveMaintenance(t, m, flight.Options{Policy: func() *policy.Policy { return p }})
	_, err := results(t.Context(), s, "orphans", `{"tables": ["ml.history"]}`)
	require.NoError(t, err)
	_, err = results(t.Context(), s, "orphans", `{"tables": ["ml.history", "ml.other"]}`)
	code, _ := flighttest.FailureOf(t, err, nil)
	require.Equal(t, codes.PermissionDenied, code)
	_, err = results(t.Context(), s, "compact", `{"table": "ml.history"}`)
	require.NoError(t, err)
	require.Equal(t, []bool{false}, m.shown, "the client may not read homefeed")

	none := policy.Open(false)
	s = serveMaintenance(t, m, flight.Options{Policy: func() *policy.Policy { return none }})
	for action, body := range map[string]string{
		"compact": `{"table": "ml.history"}`, "restore": `{"table": "ml.history", "snapshot": 5}`, "orphans": `{"tables": ["ml.history"]}`,
	} {
		_, err = results(t.Context(), s, action, body)
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.PermissionDenied, code, action)
	}
	require.Len(t, m.shown, 1)
}
