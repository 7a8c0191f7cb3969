package stage_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// Rows are staged to a branch, the branch is published, and the publication is undone.
//
// spec: stage-39
func TestBranchesAreStagedTo(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	request := dataset.TableWrite{Table: stagetest.History, Branch: "candidate"}
	r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.Len(t, r.Column(t, "", "id"), 4)
	require.Len(t, r.Column(t, "candidate", "id"), 12)
	move, err := r.Tables.Publish(t.Context(), stagetest.History, "candidate")
	require.NoError(t, err)
	require.Len(t, r.Column(t, "", "id"), 12)
	require.NoError(t, r.Tables.Undo(t.Context(), move))
	require.Len(t, r.Column(t, "", "id"), 4)
}

// A call finds its rows in a branch that an equal call creates while this call looks for the change.
//
// spec: stage-39
func TestBranchesThatAppearMeanwhileAreLookedAt(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	request := dataset.TableWrite{Table: stagetest.History, Branch: "candidate", Token: commit.NewToken(time.Now(), "nightly")}
	var other stage.WriteResult
	r.Tables.OnMade = func() { other = r.Stage(t, request, stagetest.Schema(), stagetest.Few) }
	got := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.True(t, got.Existed)
	require.Equal(t, other.Snapshot, got.Snapshot)
	require.Len(t, r.Column(t, "candidate", "id"), 8)
}

// If main has the token's change, the call creates the branch at main, without writing the rows
// again.
//
// spec: stage-39
func TestBranchesBeginWithWhatMainHas(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	token := commit.NewToken(time.Now(), "nightly")
	made := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Token: token}, stagetest.Schema(), stagetest.Few)
	later := r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	request := dataset.TableWrite{Table: stagetest.History, Branch: "candidate", Token: token, DryRun: true}
	require.True(t, r.Stage(t, request, stagetest.Schema(), stagetest.Few).Existed)
	_, err := r.Tables.State(t.Context(), stagetest.History, "candidate")
	require.Equal(t, fault.NotFound, fault.KindOf(err), "a dry run makes no branch")
	request.DryRun = false
	got := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.True(t, got.Existed)
	require.True(t, got.Branched)
	require.Equal(t, made.Snapshot, got.Snapshot)
	state, err := r.Tables.State(t.Context(), stagetest.History, "candidate")
	require.NoError(t, err)
	require.Equal(t, later.Snapshot, state.Table.Pin.Snapshot)
	require.Len(t, r.Column(t, "candidate", "id"), 12)
	again := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.True(t, again.Existed)
	require.False(t, again.Branched)

	// Another call commits the token to main while this one writes to a new branch.
	racing := dataset.TableWrite{Table: stagetest.History, Branch: "racing", Token: commit.NewToken(time.Now(), "racing")}
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.Tables.OnCommit = nil
		r.Stage(t, dataset.TableWrite{Table: stagetest.History, Token: racing.Token}, stagetest.Schema(), stagetest.Few)
		return r.Tables.Catalog.Commit(ctx, change)
	}
	_, err = r.Stager.Stage(t.Context(), stage.CallOptions{}, racing, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	require.True(t, r.Stage(t, racing, stagetest.Schema(), stagetest.Few).Branched)
}

// A call that fails creates no branch, whichever storage call fails.
//
// spec: stage-40
func TestFailuresBeginNoBranch(t *testing.T) {
	for nth := 1; nth <= 3; nth++ {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
		failing := r.Broken(t, errstore.Rule{Call: errstore.Create, Nth: nth, Action: errstore.Fail(nil)})
		request := dataset.TableWrite{Table: stagetest.History, Branch: "candidate", Again: new(true)}
		_, err := failing.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		_, err = r.Tables.State(t.Context(), stagetest.History, "candidate")
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
		r.Stage(t, request, stagetest.Schema(), stagetest.Few)
		require.Len(t, r.Column(t, "candidate", "id"), 8)
	}
}

// PyIceberg reads a table whose first snapshot was undone as an empty table, and can write to it.
//
// spec: write-58
func TestPyIcebergReadsTablesWithoutASnapshot(t *testing.T) {
	interpreter := stagetest.Python(t)
	r := stagetest.New(t, stagetest.Unlimited, nil)
	made := r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	require.NoError(t, r.Tables.Undo(t.Context(), commit.Move{Table: stagetest.History, Ref: commit.Main, To: made.Snapshot}))
	out, err := exec.CommandContext(t.Context(), interpreter, "-c", `
import sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
t = SqlCatalog("default", uri="sqlite:///" + sys.argv[1] + "/catalog.db").load_table("ml.history")
print(t.current_snapshot(), t.scan().to_arrow().num_rows)
t.append(t.scan().to_arrow().schema.empty_table())
print(t.current_snapshot().parent_snapshot_id)
`, r.Dir).CombinedOutput() //nolint:gosec // the interpreter of the tests
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "None 0\nNone\n")
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	require.Len(t, r.Column(t, "", "id"), 4)
}
