package maintenance_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// A delete file of several partitions stays until it applies to no file.
//
// spec: compact-4, compact-11
func TestDeletesOfOtherFilesStay(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: stagetest.History, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}, {ID: 2, Name: "day", Type: "date"}, {ID: 4, Name: "country", Type: "string"}},
	}))
	r.asNewSpec(t)
	plain := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "day", Type: arrow.FixedWidthTypes.Date32}}, nil)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, plain, `[{"id": 1, "day": "2026-10-01"}, {"id": 1, "day": "2026-10-02"}, {"id": 2, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-02"}]`)
	r.EraseValues(t, catalog.File{Spec: 0}, 1)
	before := r.written(t, "")
	require.Len(t, before, 2)
	out := r.compact(t, maintenance.Compaction{AnyOrder: true, Partition: []string{"day=2026-10-01"}})
	require.Equal(t, 1, out.Files)
	require.Zero(t, out.Deletes)
	require.ElementsMatch(t, before, r.written(t, ""))
	out = r.compact(t, maintenance.Compaction{AnyOrder: true})
	require.Equal(t, 1, out.Deletes)
	require.ElementsMatch(t, before, r.written(t, ""))
	require.Equal(t, "0", r.Load(t).CurrentSnapshot().Summary.Properties["total-delete-files"])
}

// twice commits rows of one key three times, for two days in turn, and deletes a row of each file
// of the first day.
func (r *rig) twice(t *testing.T) {
	t.Helper()
	r.Daily(t)
	for i := range 3 {
		day := 1 + i%2
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": 1, "country": "A%d", "day": "2026-10-0%d"}, {"id": 1, "country": "B%d", "day": "2026-10-0%d"}, {"id": 1, "country": "C%d", "day": "2026-10-0%d"}]`, i, day, i, day, i, day))
	}
	r.eraseFirst(t)
}

// eraseFirst deletes the first row of each file of the first day, with one delete file that does not name them.
func (r *rig) eraseFirst(t *testing.T) {
	t.Helper()
	byDay := map[string][]catalog.File{}
	for _, f := range r.Listed(t, "") {
		day := fmt.Sprint(f.Partition)
		byDay[day] = append(byDay[day], f)
	}
	require.Len(t, byDay, 2)
	for _, files := range byDay {
		if len(files) > 1 {
			r.ErasePositions(t, false, 0, files...)
		}
	}
}

// A delete file that does not name its data files is removed with the last of them, although the
// new files are in its partition and not newer.
//
// spec: compact-4, compact-9
func TestDeletesOfRewrittenFilesGo(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.twice(t)
	before := r.written(t, "")
	require.Len(t, before, 7)
	out := r.compact(t, maintenance.Compaction{MinFiles: 2})
	require.Equal(t, 2, out.Commits)
	require.Equal(t, 1, out.Deletes)
	sameByKey(t, before, r.written(t, ""))
	require.Zero(t, r.compact(t, maintenance.Compaction{MinFiles: 2}).Commits)
	require.Equal(t, "0", r.Load(t).CurrentSnapshot().Summary.Properties["total-delete-files"])
}

// Deletes of other files in the same delete file do not cause a file to be rewritten.
//
// spec: compact-2, compact-4, compact-9
func TestDeletesThatAFileSharesWithOneThatStays(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.plain(t, 2)
	r.appends(t, 2)
	files := r.Listed(t, "")
	r.unsorted(t, files[0])
	kept := r.Listed(t, "")[2]
	r.ErasePositions(t, false, 0, files[0], kept)
	before := r.written(t, "")
	// The unsorted file stays, since rewriting it would change the order of a country's rows. The
	// second file needs no rewriting.
	request := maintenance.Compaction{Key: []string{"country"}, FileBytes: 1}
	out := r.compact(t, request)
	require.Equal(t, []int{1, 1, 1, 0}, []int{out.Commits, out.Files, out.Kept, out.Deletes})
	require.EqualValues(t, 1, out.Deleted)
	sameByKey(t, before, r.written(t, ""))
	again := r.compact(t, request)
	require.Zero(t, again.Commits, "no file has a deleted row that could be left out")
	require.Equal(t, 1, again.Kept)
	sameByKey(t, before, r.written(t, ""))
	out = r.compact(t, maintenance.Compaction{AnyOrder: true})
	require.Equal(t, 1, out.Deletes)
	require.ElementsMatch(t, before, r.written(t, ""))
	require.Equal(t, "0", r.Load(t).CurrentSnapshot().Summary.Properties["total-delete-files"])
}

// Deletes that other writers commit between two groups stay, even if they apply to files that the
// compaction wrote.
//
// spec: compact-1, compact-8
func TestDeletesBetweenGroupsStay(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.twice(t)
	commits, before := 0, []string(nil)
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		if commits++; commits == 2 {
			r.eraseFirst(t)
			before = r.written(t, "")
		}
		return r.Tables.Catalog.Commit(ctx, change)
	}
	out := r.compact(t, maintenance.Compaction{MinFiles: 2})
	require.Equal(t, 2, out.Commits)
	require.Equal(t, 3, commits, "the second group is read again")
	require.Len(t, before, 6, "one of the two rows was deleted before")
	sameByKey(t, before, r.written(t, ""))
	require.NotZero(t, r.compact(t, maintenance.Compaction{MinFiles: 2}).Commits)
	require.Zero(t, r.compact(t, maintenance.Compaction{MinFiles: 2}).Commits)
	sameByKey(t, before, r.written(t, ""))
}
