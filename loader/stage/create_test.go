package stage_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// filesOf returns the files in the folder of the rig's namespace.
func filesOf(t *testing.T, r *stagetest.Rig) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(r.Dir, "ml"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

// requireNoTable requires that there is no table and no file of it, and that it can be staged.
func requireNoTable(t *testing.T, r *stagetest.Rig) {
	t.Helper()
	_, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
	require.Empty(t, filesOf(t, r))
	require.True(t, r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few).Created)
	require.Len(t, r.Column(t, "", "id"), 4)
}

// A first stage that fails leaves no table and no file, whichever storage call fails.
//
// spec: stage-141, write-69
func TestFailuresLeaveNoTable(t *testing.T) {
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish, errstore.Create} {
		for nth := 1; ; nth++ {
			r := stagetest.New(t, stagetest.Unlimited, nil)
			failing := r.Broken(t, errstore.Rule{Call: call, Nth: nth, Action: errstore.Fail(nil)})
			_, err := failing.Stager.Stage(t.Context(), stage.CallOptions{}, stagetest.Create(), stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
			if err == nil {
				require.Greater(t, nth, 1, call)
				break
			}
			require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
			requireNoTable(t, r)
		}
	}
	t.Run("stopped", func(t *testing.T) {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		ctx, stop := context.WithCancel(t.Context())
		r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
			stop()
			return r.Tables.Catalog.Commit(ctx, change)
		}
		_, err := r.Stager.Stage(ctx, stage.CallOptions{}, stagetest.Create(), stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
		require.ErrorIs(t, err, context.Canceled)
		r.Tables.OnCommit = nil
		requireNoTable(t, r)
	})
}

// Of two calls that create a table at once, the later one adds its rows to the table of the first, if
// they may be added.
//
// spec: stage-142, write-69
func TestTablesCreatedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		buckets    int
		duplicates bool
		rows       string
		kind       fault.Kind
		says       string
	}{
		"other keys":                   {buckets: 4, rows: `[{"id": 50, "day": "2026-10-01"}]`},
		"equal keys":                   {buckets: 4, rows: `[{"id": 3, "day": "2026-10-01"}]`, kind: fault.Invalid, says: "1 key of the rows is in table ml.history already"},
		"equal keys that are allowed":  {buckets: 4, duplicates: true, rows: `[{"id": 3, "day": "2026-10-01"}]`},
		"another layout, without keys": {buckets: 8, duplicates: true, rows: `[{"id": 50, "day": "2026-10-01"}]`, kind: fault.Conflict, says: "with another layout"},
		"another layout":               {buckets: 8, rows: `[{"id": 50, "day": "2026-10-01"}]`, kind: fault.Conflict, says: "with another layout"},
	} {
		t.Run(name, func(t *testing.T) {
			r := stagetest.New(t, stagetest.Unlimited, nil)
			var first stage.WriteResult
			var between []string
			r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
				r.Tables.OnCommit = nil
				before := filesOf(t, r)
				require.NotEmpty(t, before)
				first = r.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Buckets: c.buckets}, stagetest.Schema(), c.rows)
				for _, f := range filesOf(t, r) {
					if !slices.Contains(before, f) {
						between = append(between, f)
					}
				}
				return r.Tables.Catalog.Commit(ctx, change)
			}
			request := stagetest.Create()
			request.AllowDuplicates = c.duplicates
			later, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
			state, loading := r.Tables.State(t.Context(), stagetest.History, "")
			require.NoError(t, loading)
			if c.says == "" {
				require.NoError(t, err)
				require.Equal(t, first.Snapshot, later.Parent)
				require.Len(t, r.Column(t, "", "id"), 5)
				return
			}
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, first.Snapshot, state.Table.Pin.Snapshot, "the table of the first call is unchanged")
			require.ElementsMatch(t, between, filesOf(t, r), "only its files are left")
		})
	}
}

// A catalog that chooses the folders of tables has the table before its files. If the call fails then,
// the error says that the table is left, and a repeated call uses it.
//
// spec: stage-141
func TestFailuresLeaveAnEmptyTable(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	failing := r.Broken(t, errstore.Rule{Call: errstore.Begin, Nth: 1, Action: errstore.Fail(nil)})
	failing.Tables.ChoosesFolders = true
	_, err := failing.Stager.Stage(t.Context(), stage.CallOptions{}, stagetest.Create(), stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Contains(t, fault.As(err).Remedy, "the call created table ml.history, which has no rows; a repeated call uses it")
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.False(t, state.Table.HasSnapshot())
	require.Empty(t, r.Parquet(t))
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	require.Len(t, r.Column(t, "", "id"), 4)
}
