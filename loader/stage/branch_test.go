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
	"github.com/penstock/penstock/loader/stage"
)

// A branch is committed to, published and taken back.
//
// spec: stage-39
func TestBranchesAreStagedTo(t *testing.T) {
	r := newRig(t, unlimited, nil)
	r.stage(t, create(), schema(), few)
	request := stage.TableWrite{Table: history, Branch: "candidate"}
	r.stage(t, request, schema(), few)
	r.stage(t, request, schema(), few)
	require.Len(t, r.column(t, "", "id"), 4)
	require.Len(t, r.column(t, "candidate", "id"), 12)
	move, err := r.tables.Publish(t.Context(), history, "candidate")
	require.NoError(t, err)
	require.Len(t, r.column(t, "", "id"), 12)
	require.NoError(t, r.tables.Undo(t.Context(), move))
	require.Len(t, r.column(t, "", "id"), 4)
}

// A token that main has makes the branch, at main: it has the rows of the token, once.
//
// spec: stage-39
func TestBranchesBeginWithWhatMainHas(t *testing.T) {
	r := newRig(t, unlimited, nil)
	r.stage(t, create(), schema(), few)
	token := commit.NewToken(time.Now(), "nightly")
	made := r.stage(t, stage.TableWrite{Table: history, Token: token}, schema(), few)
	later := r.stage(t, stage.TableWrite{Table: history}, schema(), few)
	request := stage.TableWrite{Table: history, Branch: "candidate", Token: token, DryRun: true}
	require.True(t, r.stage(t, request, schema(), few).Existed)
	_, err := r.tables.State(t.Context(), history, "candidate")
	require.Equal(t, fault.NotFound, fault.KindOf(err), "a dry run makes no branch")
	request.DryRun = false
	got := r.stage(t, request, schema(), few)
	require.True(t, got.Existed)
	require.True(t, got.Branched)
	require.Equal(t, made.Snapshot, got.Snapshot)
	state, err := r.tables.State(t.Context(), history, "candidate")
	require.NoError(t, err)
	require.Equal(t, later.Snapshot, state.Table.Pin.Snapshot)
	require.Len(t, r.column(t, "candidate", "id"), 12)
	again := r.stage(t, request, schema(), few)
	require.True(t, again.Existed)
	require.False(t, again.Branched)

	// Another call commits the token to main while this one writes to a new branch.
	racing := stage.TableWrite{Table: history, Branch: "racing", Token: commit.NewToken(time.Now(), "racing")}
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.tables.commit = nil
		r.stage(t, stage.TableWrite{Table: history, Token: racing.Token}, schema(), few)
		return r.tables.Catalog.Commit(ctx, change)
	}
	_, err = r.stager.Stage(t.Context(), racing, rows(t, schema(), few))
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	require.True(t, r.stage(t, racing, schema(), few).Branched)
}

// A new branch is not there after a failure, wherever the call fails.
//
// spec: stage-40
func TestFailuresBeginNoBranch(t *testing.T) {
	for nth := 1; nth <= 3; nth++ {
		r := newRig(t, unlimited, nil)
		r.stage(t, create(), schema(), few)
		failing := r.broken(t, errstore.Rule{Call: errstore.Create, Nth: nth, Action: errstore.Fail(nil)})
		request := stage.TableWrite{Table: history, Branch: "candidate"}
		_, err := failing.stager.Stage(t.Context(), request, rows(t, schema(), few))
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		_, err = r.tables.State(t.Context(), history, "candidate")
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
		r.stage(t, request, schema(), few)
		require.Len(t, r.column(t, "candidate", "id"), 8)
	}
}

// PyIceberg reads a table whose first snapshot was undone as an empty one, and writes to it.
//
// spec: write-58
func TestPyIcebergReadsTablesWithoutASnapshot(t *testing.T) {
	interpreter := python(t)
	r := newRig(t, unlimited, nil)
	made := r.stage(t, create(), schema(), few)
	require.NoError(t, r.tables.Undo(t.Context(), commit.Move{Table: history, Ref: commit.Main, To: made.Snapshot}))
	out, err := exec.CommandContext(t.Context(), interpreter, "-c", `
import sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
t = SqlCatalog("default", uri="sqlite:///" + sys.argv[1] + "/catalog.db").load_table("ml.history")
print(t.current_snapshot(), t.scan().to_arrow().num_rows)
t.append(t.scan().to_arrow().schema.empty_table())
print(t.current_snapshot().parent_snapshot_id)
`, r.dir).CombinedOutput() //nolint:gosec // the interpreter of the tests
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "None 0\nNone\n")
	r.stage(t, stage.TableWrite{Table: history}, schema(), few)
	require.Len(t, r.column(t, "", "id"), 4)
}
