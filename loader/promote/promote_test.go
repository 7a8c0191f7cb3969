package promote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/promote"
)

// spec: promote-1, promote-4, promote-5
func TestRowsKeepTheirAgeAndIDs(t *testing.T) {
	for version := 1; version <= 3; version++ {
		t.Run(fmt.Sprintf("format version %d", version), func(t *testing.T) {
			r := newRig(t)
			r.create(t, version)
			columns := []string{"row"}
			if version == 3 {
				columns = append(columns, "_row_id", "_last_updated_sequence_number")
			}
			before, files := r.read(t, columns...), r.listed(t)
			got, err := r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.Len(t, files, got.Files)
			require.EqualValues(t, 8, got.Rows)
			require.EqualValues(t, 8, got.Compared)
			require.Equal(t, promote.MatchCounts{Rows: 8, Matched: 5}, got.Matches["history"])
			require.Equal(t, want(), r.read(t, "row", "f"))
			require.Equal(t, before, r.read(t, columns...))
			for _, f := range r.listed(t) {
				require.True(t, commit.Owned(f.Location))
				for _, old := range files {
					require.NotEqual(t, old.Location, f.Location)
				}
			}
		})
	}
}

// errBroken is the failure of a call.
var errBroken = fault.New(fault.Unavailable, "the catalog does not answer")

// Whichever call fails or loses its answer, a repeated call completes the promotion, once.
//
// spec: promote-6, promote-8
func TestInterruptedPromotionsContinue(t *testing.T) {
	for name, interrupt := range map[string]func(r *rig){
		"a commit": func(r *rig) {
			r.tables.commit = func(context.Context, commit.Change) (commit.Committed, error) { return commit.Committed{}, errBroken }
		},
		"the answer of a commit": func(r *rig) {
			r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
				_, err := r.tables.Catalog.Commit(ctx, change)
				return commit.Committed{}, commit.AsUncertain(errors.Join(errBroken, err))
			}
		},
		"the last call": func(r *rig) {
			r.tables.setSchema = func(context.Context, commit.SchemaMove) error { return errBroken }
		},
		"the answer of the last call": func(r *rig) {
			r.tables.setSchema = func(ctx context.Context, move commit.SchemaMove) error {
				err := r.tables.Catalog.SetSchema(ctx, move)
				return commit.AsUncertain(errors.Join(errBroken, err))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(t, 2)
			interrupt(r)
			_, err := r.promoter.Promote(t.Context(), request())
			require.Error(t, err)
			r.tables.commit, r.tables.setSchema = nil, nil
			require.Len(t, r.read(t, "row"), 8)
			_, err = r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.Equal(t, want(), r.read(t, "row", "f"))
			got, err := r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.True(t, got.Existed)
		})
	}
}

// Each call of the storage fails once, and a repeated call completes the promotion.
//
// spec: promote-6, promote-9
func TestStorageThatFailsOnce(t *testing.T) {
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish, errstore.Create} {
		for n := 1; ; n++ {
			r := newRig(t)
			r.createSmall(t)
			files := r.written(t)
			r.files.Set(errstore.Rule{Call: call, Nth: n, Action: errstore.Fail(errBroken)})
			_, err := r.promoter.Promote(t.Context(), request())
			r.files.Set()
			if err == nil {
				break
			}
			if call != errstore.Create {
				require.Equal(t, files, r.written(t), "files are left")
			}
			_, err = r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.Equal(t, []string{"0 10"}, r.read(t, "row", "f"))
		}
	}
}

// written returns the number of Parquet files in the folder of the training table.
func (r *rig) written(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(r.dir, "ml"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".parquet") {
			n++
		}
		return err
	}))
	return n
}

// Rows that others append while files are rewritten are promoted, too.
//
// spec: promote-7
func TestFilesOfOthersAreTakenIn(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	appended := 0
	add := func() {
		if appended < 2 {
			appended++
			r.tables.commit, r.tables.setSchema = nil, nil
			r.append(t, rowsTable, fmt.Sprintf(`{"row": %d, "key": 2}`, 7+appended))
		}
	}
	last := func(ctx context.Context, move commit.SchemaMove) error {
		add()
		return r.tables.Catalog.SetSchema(ctx, move)
	}
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		add()
		r.tables.setSchema = last
		return r.tables.Catalog.Commit(ctx, change)
	}
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.EqualValues(t, 10, got.Rows)
	require.Equal(t, append(want(), "8 20", "9 20"), r.read(t, "row", "f"))
}

// A file that others replace while it is rewritten is rewritten again, and what was written for it is removed.
//
// spec: promote-7
func TestFilesThatOthersReplaceAreLeftOut(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	old := r.listed(t)[0]
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.tables.commit = nil
		_, err := r.tables.Catalog.Commit(ctx, commit.Change{
			Table: rowsTable, Mode: commit.Overwrite, Base: change.Base, Remove: []string{old.Location},
		})
		require.NoError(t, err)
		return r.tables.Catalog.Commit(ctx, change)
	}
	before := len(r.listed(t))
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, before-1, got.Files)
	require.Len(t, r.listed(t), before-1)
	require.Len(t, r.read(t, "row", "f"), int(8-old.Rows))
}

// An interrupted promotion has values of one snapshot of each staging table only.
//
// spec: promote-10
func TestValuesOfTwoSnapshotsAreNeverMixed(t *testing.T) {
	interrupted := func(t *testing.T) *rig {
		t.Helper()
		r := newRig(t)
		r.create(t, 2)
		r.tables.setSchema = func(context.Context, commit.SchemaMove) error { return errBroken }
		_, err := r.promoter.Promote(t.Context(), request())
		require.ErrorIs(t, err, errBroken)
		r.tables.setSchema = nil
		r.append(t, features, `{"key": 3, "f": 30}`)
		return r
	}
	t.Run("refused", func(t *testing.T) {
		r := interrupted(t)
		_, err := r.promoter.Promote(t.Context(), request())
		require.Equal(t, fault.Conflict, fault.KindOf(err), err)
		require.ErrorContains(t, err, "history from snapshot")
		require.NotContains(t, r.names(t), "f")
	})
	t.Run("continued", func(t *testing.T) {
		r := interrupted(t)
		again := request()
		again.Earlier = promote.Continue
		got, err := r.promoter.Promote(t.Context(), again)
		require.NoError(t, err)
		require.Zero(t, got.Files)
		require.Equal(t, want(), r.read(t, "row", "f"))
	})
	t.Run("begun again", func(t *testing.T) {
		r := interrupted(t)
		again := request()
		again.Earlier = promote.BeginAnew
		got, err := r.promoter.Promote(t.Context(), again)
		require.NoError(t, err)
		require.EqualValues(t, 8, got.Rows)
		rows := want()
		rows[5] = "5 30"
		require.Equal(t, rows, r.read(t, "row", "f"))
	})
}

// names returns the names of the training table's columns.
func (r *rig) names(t *testing.T) []string {
	t.Helper()
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	return state.Table.Names()
}

// spec: promote-12
func TestDemotedColumnsAreGone(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	files := r.listed(t)
	_, err = r.promoter.Demote(t.Context(), rowsTable, []string{"row"})
	require.ErrorContains(t, err, "no promoted column row")
	require.ErrorContains(t, fault.As(err), "its promoted columns are f")
	out, err := r.promoter.Demote(t.Context(), rowsTable, []string{"f"})
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, out.Dropped)
	require.Equal(t, []string{"row", "key"}, r.names(t))
	require.Equal(t, files, r.listed(t))
}
