package changes_test

import (
	"context"
	"errors"
	"io"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/flight/flighttest"
	"github.com/penstock/penstock/internal/audit"
	"github.com/penstock/penstock/internal/batch/batchtest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/policy"
)

// spec: stage-69, stage-70
func TestRightsToWrite(t *testing.T) {
	limited := []policy.TableLimits{{Name: "ml.impressions", Withheld: []string{"score"}}}
	for name, c := range map[string]struct {
		rules   []policy.AccessRule
		command string
		code    codes.Code
	}{
		"the table":         {[]policy.AccessRule{{Write: []string{"ml.*"}, Allow: []policy.Permission{policy.Stage}}}, `"table": "ml.history"`, codes.OK},
		"another table":     {[]policy.AccessRule{{Write: []string{"ml.*"}, Allow: []policy.Permission{policy.Stage}}}, `"table": "features.history"`, codes.PermissionDenied},
		"only publish":      {[]policy.AccessRule{{Write: []string{"ml.*"}, Allow: []policy.Permission{policy.Publish}}}, `"table": "ml.history"`, codes.PermissionDenied},
		"first rule":        {[]policy.AccessRule{{Write: []string{"ml.h*"}, Allow: []policy.Permission{policy.Publish}}, {Write: []string{"ml.*"}, Allow: []policy.Permission{policy.Stage}}}, `"table": "ml.history"`, codes.PermissionDenied},
		"reading":           {[]policy.AccessRule{{Read: []string{"*"}, Inline: []string{"*"}, Allow: policy.Actions()}}, `"table": "ml.history"`, codes.PermissionDenied},
		"keys of a dataset": {[]policy.AccessRule{{Write: []string{"ml.*"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Stage}}}, `"table": "ml.history", "only_keys_of": "homefeed"`, codes.OK},
		"keys of no dataset": {
			[]policy.AccessRule{{Write: []string{"ml.*"}, Allow: []policy.Permission{policy.Stage}}},
			`"table": "ml.history", "only_keys_of": "homefeed"`, codes.NotFound,
		},
		"keys of a dataset by a right to tables": { // which have limits that are not those of a table named homefeed
			[]policy.AccessRule{{Write: []string{"ml.*"}, Inline: []string{"*"}, Allow: []policy.Permission{policy.Stage}, Tables: limited}},
			`"table": "ml.history", "only_keys_of": "homefeed"`, codes.NotFound,
		},
		"keys of a part of a dataset": {
			[]policy.AccessRule{{Write: []string{"ml.*"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Stage}, Tables: limited}},
			`"table": "ml.history", "only_keys_of": "homefeed"`, codes.PermissionDenied,
		},
		"keys of a table": {
			[]policy.AccessRule{{Write: []string{"ml.history"}, Inline: []string{"ml.*"}, Allow: []policy.Permission{policy.Stage}}},
			`"table": "ml.history", "only_keys_of": "ml.impressions"`, codes.OK,
		},
		"keys of another table": {
			[]policy.AccessRule{{Write: []string{"ml.history"}, Allow: []policy.Permission{policy.Stage}}},
			`"table": "ml.history", "only_keys_of": "ml.impressions"`, codes.NotFound,
		},
		"like a dataset's table": {
			[]policy.AccessRule{{Write: []string{"ml.history"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Stage}}},
			`"table": "ml.history", "like": "ml.impressions"`, codes.OK,
		},
		"like a table with withheld columns": {
			[]policy.AccessRule{{Write: []string{"ml.history"}, Read: []string{"*"}, Inline: []string{"*"}, Allow: []policy.Permission{policy.Stage}, Tables: limited}},
			`"table": "ml.history", "like": "ml.impressions"`, codes.PermissionDenied,
		},
		"like a table with withheld columns that it writes to": { // so that it learns them anyway
			[]policy.AccessRule{{Write: []string{"ml.*"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Stage}, Tables: limited}},
			`"table": "ml.history", "like": "ml.impressions"`, codes.OK,
		},
		"like a table with withheld rows": {
			[]policy.AccessRule{{
				Write: []string{"ml.history"}, Read: []string{"*"}, Allow: []policy.Permission{policy.Stage},
				Tables: []policy.TableLimits{{Name: "ml.impressions", Filter: datasettest.Filter("score > 1")}},
			}},
			`"table": "ml.history", "like": "ml.impressions"`, codes.OK,
		},
		"like another table": {
			[]policy.AccessRule{{Write: []string{"ml.history"}, Allow: []policy.Permission{policy.Stage}}},
			`"table": "ml.history", "like": "ml.impressions"`, codes.NotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.rules {
				c.rules[i].Subjects = []string{"*"}
			}
			p := &policy.Policy{Rules: c.rules}
			w := &writtenRows{}
			s := serveTables(t, w, flight.Options{Policy: func() *policy.Policy { return p }})
			call := put(t, s.Client, `{"stage": {`+c.command+`}}`, batchtest.IDSchema())
			call.rows(t, batchtest.IDs(0, 1))
			_ = call.Send(&arrowflight.FlightData{AppMetadata: []byte(`{"rows": 1}`)}) // the call may have ended
			_ = call.CloseSend()
			_, err := call.answers()
			if c.code == codes.OK {
				require.NoError(t, err)
				return
			}
			code, _ := flighttest.FailureOf(t, err, nil)
			require.Equal(t, c.code, code, err)
			w.none(t)
		})
	}
	closed := policy.Open(false)
	s := serveTables(t, &writtenRows{}, flight.Options{Policy: func() *policy.Policy { return closed }})
	for _, call := range [][2]string{
		{"publish", `{"table": "ml.history", "branch": "try"}`},
		{"publish", `{"table": "ml.history", "branch": "try", "dry_run": true}`},
		{"undo", `{"table": "ml.history", "from": 1, "to": 2}`},
	} {
		_, err := act(t.Context(), s, call[0], call[1])
		code, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.PermissionDenied, code)
	}
}

// spec: stage-70, stage-194
func TestPublishAndUndoAreActions(t *testing.T) {
	w := &writtenRows{}
	s := serveTables(t, w, flight.Options{})
	got, err := act(t.Context(), s, "publish", `{"table": "ml.history", "branch": "try"}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"table": "ml.history", "branch": "try", "from": "1", "to": "2"}`, got)
	for _, fields := range []string{`"from": "1", "to": "2"`, `"from": 0, "to": 2, "dry_run": true, "no_check": true`} {
		_, err = act(t.Context(), s, "publish", `{"table": "ml.history", "branch": "try", `+fields+`}`)
		require.NoError(t, err)
	}
	require.Equal(t, []changes.Publication{
		{Publication: commit.Publication{Table: "ml.history", Branch: "try"}},
		{Publication: commit.Publication{Table: "ml.history", Branch: "try", From: 1, To: 2}},
		{Publication: commit.Publication{Table: "ml.history", Branch: "try", From: 0, To: 2}, DryRun: true, NoCheck: true},
	}, w.published)
	got, err = act(t.Context(), s, "undo", `{"table": "ml.history", "from": "1", "to": "2", "no_check": true}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"table": "ml.history", "from": "2", "to": "1"}`, got)
	got, err = act(t.Context(), s, "undo", `{"table": "ml.history", "from": 0, "to": 2, "no_check": true}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"table": "ml.history", "from": "2"}`, got)
	got, err = act(t.Context(), s, "undo", `{"table": "ml.history", "branch": "try", "from": 0, "to": 2, "no_check": true}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"table": "ml.history", "branch": "try", "from": "2"}`, got)
	require.Equal(t, []commit.Move{
		{Table: "ml.history", Ref: commit.Main, From: 1, To: 2},
		{Table: "ml.history", Ref: commit.Main, From: 0, To: 2},
		{Table: "ml.history", Ref: "try", From: 0, To: 2},
	}, w.moves)
	for _, body := range []string{
		`{"table": "ml.history", "to": 2}`, `{"table": "ml.history", "from": 1, "to": 0}`, `{"table": "ml.history", "from": -1, "to": 2}`,
		`{"table": "ml.history", "branch": "", "from": 1, "to": 2}`,
	} {
		_, err := act(t.Context(), s, "undo", body)
		found, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, codes.InvalidArgument, found, body)
	}
	require.Len(t, w.moves, 3)
	for body, code := range map[string]codes.Code{
		`{"table": "ml.history", "branch": "gone"}`:           codes.NotFound,
		`{"table": "ml.history"}`:                             codes.InvalidArgument,
		`{"table": "ml.history", "branch": "try", "from": 1}`: codes.InvalidArgument,
		`{"table": "ml.history", "branch": "try", "to": 1}`:   codes.InvalidArgument,
		`{"table": "ml.history", "branch": "try", "drop": 1}`: codes.InvalidArgument,
	} {
		_, err := act(t.Context(), s, "publish", body)
		found, _ := flighttest.FailureOf(t, err, nil)
		require.Equal(t, code, found, body)
	}
}

// A change with an unknown outcome is reported as such, even if the server ends.
//
// spec: stage-68
func TestUncertainChangesSayTheirToken(t *testing.T) {
	w := &writtenRows{err: commit.AsUncertain(fault.New(fault.Unavailable, "no answer").WithRemedy("repeat the call with token %s", testToken))}
	s := serveTables(t, w, flight.Options{})
	p := put(t, s.Client, stageOf, batchtest.IDSchema())
	p.rows(t, batchtest.IDs(0, 1)).declare(t, 1)
	_, err := p.answers()
	code, details := flighttest.FailureOf(t, err, p.Trailer())
	require.Equal(t, codes.Unavailable, code)
	require.Contains(t, details.Remedy, testToken)
}

// act calls an action with one result.
func act(ctx context.Context, s *served, name, body string) (string, error) {
	stream, err := s.DoAction(ctx, &arrowflight.Action{Type: name, Body: []byte(body)})
	if err != nil {
		return "", err
	}
	result, err := stream.Recv()
	if err != nil {
		return "", err
	}
	_, err = stream.Recv()
	if !errors.Is(err, io.EOF) {
		return "", errors.Join(err, errors.New("there is more than one result"))
	}
	return string(result.GetBody()), nil
}

// spec: stage-71
func TestChangesHaveALine(t *testing.T) {
	o, lines := auditing(t)
	s := serveTables(t, &writtenRows{}, o)
	p := put(t, s.Client, stageOf, batchtest.IDSchema())
	p.rows(t, batchtest.IDs(0, 2)).declare(t, 2)
	_, err := p.answers()
	require.NoError(t, err)
	found := <-lines
	require.NotZero(t, found.Bytes)
	found.Bytes = 0
	require.Equal(t, audit.Line{
		Time: noon(), Event: audit.Stage, Call: "DoPut", Host: "127.0.0.1", Tables: []audit.TableSnapshot{{Table: "ml.history", Snapshot: 7}},
		Token: testToken, Columns: 1, Rows: 2, Batches: 1, End: "ok",
	}, found)
	for action, body := range map[string]string{"publish": `{"table": "ml.history", "branch": "try"}`, "undo": `{"table": "ml.history", "from": 2, "to": 1}`} {
		_, err := act(t.Context(), s, action, body)
		require.NoError(t, err)
		found := <-lines
		require.Equal(t, audit.Event(action), found.Event)
		require.Equal(t, []audit.TableSnapshot{{Table: "ml.history", Snapshot: 2}}, found.Tables)
	}
	p = put(t, s.Client, `{"stage": {"table": "ml.history"}}`, batchtest.IDSchema()).rows(t, batchtest.IDs(0, 1))
	require.NoError(t, p.CloseSend())
	_, err = p.answers()
	require.Error(t, err)
	found = <-lines
	require.Equal(t, fault.Invalid.String(), found.End)
}
