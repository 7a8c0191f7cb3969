package repoint_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/repoint"
)

// Position deletes follow the rows of a file to its copy. A delete file stays while it applies to
// other files, and is removed with the last of these.
//
// spec: write-40, write-41
func TestPositionDeletesFollowTheirRows(t *testing.T) {
	r := newRig(t, 2)
	files := []commit.DataFile{r.file(t, "f0", 0), r.file(t, "f1", 1), r.file(t, "f2", 2)}
	r.commit(t, commit.Change{Add: files})
	r.deletePositions(t, "", map[string][]int64{files[0].Location: {1, 5}}, map[string][]int64{files[1].Location: {7}})
	r.deletePositions(t, files[0].Location, map[string][]int64{files[0].Location: {5, 99}})
	want := without(3, 1, 5, 99, 107)
	_, live := r.live(t)
	require.Len(t, live["f0.parquet"].Deletes.Positions, 2)
	near, own := live["f2.parquet"].Deletes.Positions[0].Location, live["f0.parquet"].Deletes.Positions[1].Location

	change, made := r.copies(t, 2, nil, 0)
	require.Equal(t, []string{own}, change.RemoveDeletes)
	require.Len(t, change.AddDeletes, 1)
	require.Equal(t, catalog.DeleteFile{
		Kind: catalog.PositionDeletes, Location: change.AddDeletes[0].Location, Bytes: change.AddDeletes[0].Bytes, Rows: 3,
		Partition: []any{int64(1)}, Data: change.Add[0].Location,
	}, change.AddDeletes[0])
	summary := r.load(t).CurrentSnapshot().Summary.Properties
	require.Equal(t, []string{"1", "1", "3", "2", "2", "6", "1"}, []string{
		summary["added-delete-files"], summary["removed-delete-files"], summary["added-position-deletes"], summary["removed-position-deletes"],
		summary["total-delete-files"], summary["total-position-deletes"], summary["added-position-delete-files"],
	})
	_, live = r.live(t)
	copied := live[filepath.Base(change.Add[0].Location)]
	require.Equal(t, int64(1), copied.Sequence)
	require.Len(t, copied.Deletes.Positions, 2, "its own, and those of the partition")

	// A file without deleted rows adds and removes no delete file.
	change, _ = r.copies(t, 2, nil, 2)
	require.Empty(t, change.AddDeletes)
	require.Empty(t, change.RemoveDeletes)

	change, _ = r.copies(t, 2, func(location string) bool { return location != files[0].Location }, 1)
	require.Equal(t, []string{near}, change.RemoveDeletes)
	require.Equal(t, int64(1), change.AddDeletes[0].Rows)
	require.Equal(t, "2", r.load(t).CurrentSnapshot().Summary.Properties["total-delete-files"])
	require.NotZero(t, made.Snapshot)
	require.Equal(t, want, r.ids(t))
}

// Deletion vectors follow the rows of a file to its copy, and are removed along with the file.
//
// spec: write-38, write-40
func TestVectorsFollowTheirRows(t *testing.T) {
	r := newRig(t, 3)
	files := []commit.DataFile{r.file(t, "f0", 0), r.file(t, "f1", 1), r.file(t, "f2", 2)}
	r.commit(t, commit.Change{Add: files})
	r.deleteByVectors(t, map[string][]int64{files[0].Location: {1, 5, 99}, files[1].Location: {7, 8, 9, 10}})
	want := without(3, 1, 5, 99, 107, 108, 109, 110)
	_, before := r.live(t)
	require.NotNil(t, before["f1.parquet"].FirstRow)

	change, _ := r.copies(t, 3, nil, 0, 1, 2)
	require.Empty(t, change.RemoveDeletes)
	require.Len(t, change.AddDeletes, 2)
	require.Equal(t, change.AddDeletes[0].Location, change.AddDeletes[1].Location, "one file for all")
	_, live := r.live(t)
	for i, f := range change.Add[:2] {
		after := live[filepath.Base(f.Location)]
		require.Equal(t, change.AddDeletes[i].Offset, after.Deletes.Vector.Offset)
		require.Equal(t, []int64{3, 4}[i], after.Deletes.Vector.Rows)
		require.Equal(t, before["f"+itoa(int64(i))+".parquet"].FirstRow, after.FirstRow)
	}
	require.Nil(t, live[filepath.Base(change.Add[2].Location)].Deletes.Vector)
	summary := r.load(t).CurrentSnapshot().Summary.Properties
	require.Equal(t, []string{"2", "2", "2", "7", "7"}, []string{
		summary["added-dvs"], summary["removed-dvs"], summary["total-delete-files"], summary["removed-position-deletes"], summary["total-position-deletes"],
	})
	require.Equal(t, map[string][]uint64{change.Add[0].Location: {1, 5, 99}, change.Add[1].Location: {7, 8, 9, 10}}, r.vectors(t))
	require.Equal(t, want, r.ids(t))
}

// Vectors of files that are not moved stay in the rewritten manifest.
//
// spec: write-38, write-40
func TestVectorsOfOtherFilesStay(t *testing.T) {
	r := newRig(t, 3)
	files := []commit.DataFile{r.file(t, "f0", 0), r.file(t, "f1", 1)}
	r.commit(t, commit.Change{Add: files})
	r.deleteByVectors(t, map[string][]int64{files[0].Location: {1, 5}, files[1].Location: {7, 8}})
	change, _ := r.copies(t, 3, nil, 0)
	require.Equal(t, map[string][]uint64{change.Add[0].Location: {1, 5}, files[1].Location: {7, 8}}, r.vectors(t))
	_, live := r.live(t)
	require.Equal(t, int64(2), live["f1.parquet"].Deletes.Vector.Sequence, "it is as old as it was")
	again, _ := r.copies(t, 3, nil, 1)
	require.Equal(t, map[string][]uint64{change.Add[0].Location: {1, 5}, again.Add[0].Location: {7, 8}}, r.vectors(t))
	require.Equal(t, "2", r.load(t).CurrentSnapshot().Summary.Properties["total-delete-files"])
}

// vectors returns the positions in the table's deletion vectors, read by iceberg-go.
func (r *rig) vectors(t *testing.T) map[string][]uint64 {
	t.Helper()
	tbl := r.load(t)
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fs)
	require.NoError(t, err)
	out := map[string][]uint64{}
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentDeletes {
			continue
		}
		for e, err := range m.Entries(fs, true) {
			require.NoError(t, err)
			set, err := dv.ReadDV(fs, e.DataFile())
			require.NoError(t, err)
			out[*e.DataFile().ReferencedDataFile()] = slices.Collect(set.Positions())
		}
	}
	return out
}

// The position deletes of tables upgraded from format version 2 become deletion vectors.
//
// spec: write-40
func TestPositionDeletesBecomeVectors(t *testing.T) {
	r := newRig(t, 2)
	files := []commit.DataFile{r.file(t, "f0", 0), r.file(t, "f1", 1)}
	r.commit(t, commit.Change{Add: files})
	r.deletePositions(t, "", map[string][]int64{files[0].Location: {1, 5}}, map[string][]int64{files[1].Location: {7}})
	tx := r.load(t).NewTransaction()
	require.NoError(t, tx.UpgradeFormatVersion(3))
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
	change, _ := r.copies(t, 3, nil, 0, 1)
	require.Len(t, change.RemoveDeletes, 1)
	require.Equal(t, map[string][]uint64{change.Add[0].Location: {1, 5}, change.Add[1].Location: {7}}, r.vectors(t))
	require.Equal(t, without(2, 1, 5, 107), r.ids(t))
}

// spec: write-40
func TestDeletesThatCannotBeWritten(t *testing.T) {
	r := newRig(t, 2)
	files := []commit.DataFile{r.file(t, "f0", 0)}
	r.commit(t, commit.Change{Add: files})
	r.deletePositions(t, "", map[string][]int64{files[0].Location: {1, 5}})
	pinned, live := r.live(t)
	moved := []repoint.MovedFile{{Old: live["f0.parquet"], New: "file:///x.parquet"}}
	for version := 1; version <= 3; version++ {
		o := r.options(version)
		o.Files = errstore.New(store.Local{}, errstore.Rule{Call: errstore.Create, Action: errstore.Fail(fault.New(fault.Unavailable, "no room"))})
		_, err := repoint.Write(t.Context(), pinned, moved, o)
		require.ErrorContains(t, err, map[int]string{1: "of format version 1 has deletes", 2: "no room", 3: "no room"}[version])
		require.Zero(t, o.Budget.Used())
		if version == 1 {
			continue
		}
		o.Files, o.Budget = store.Local{}, budget.New(1<<10)
		_, err = repoint.Write(t.Context(), pinned, moved, o)
		require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
		require.Zero(t, o.Budget.Used())
	}
	moved[0].Old.Rows = 5
	_, err := repoint.Write(t.Context(), pinned, moved, r.options(2))
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
}
