package maintenance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// restore restores the table and requires success.
func (r *rig) restore(t *testing.T, request maintenance.Restoration) maintenance.RestorationResult {
	t.Helper()
	request.Table = stagetest.History
	out, err := r.rewriter.Restore(t.Context(), request)
	require.NoError(t, err)
	return out
}

// current returns the current snapshot of main.
func (r *rig) current(t *testing.T) int64 {
	t.Helper()
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	return state.Table.Pin.Snapshot
}

// spec: compact-20, compact-21, compact-22, compact-24
func TestPartitionsAreRestored(t *testing.T) {
	for version := 1; version <= 3; version++ {
		r := newRig(t, stagetest.Unlimited, nil)
		r.plain(t, version)
		r.appends(t, 3)
		then, snapshot := r.written(t, ""), r.current(t)
		paths := r.Listed(t, "")
		r.compact(t, maintenance.Compaction{AnyOrder: true, MinFiles: 2})
		r.appends(t, 2)
		request := maintenance.Restoration{Snapshot: snapshot, Token: commit.NewToken(time.Now(), "restore")}
		dry := r.restore(t, maintenance.Restoration{Snapshot: snapshot, DryRun: true})
		require.Zero(t, dry.Snapshot)
		out := r.restore(t, request)
		require.Equal(t, 3, out.Copied)
		require.Equal(t, dry.Copied, out.Copied)
		require.Equal(t, dry.Removed, out.Removed)
		now := r.written(t, "")
		switch version {
		case 1:
			require.ElementsMatch(t, then, now)
		case 2:
			require.Equal(t, then, now, "the rows come in the order that they had")
		default:
			require.Equal(t, withoutUpdated(then), withoutUpdated(now), "with the row ids that they had")
		}
		for _, f := range r.Listed(t, "") {
			require.True(t, commit.Owned(f.Location))
			for _, old := range paths {
				require.NotEqual(t, old.Location, f.Location)
			}
		}
		again := r.restore(t, request)
		require.True(t, again.Existed)
		require.Equal(t, out.Snapshot, again.Snapshot)
		require.Zero(t, again.Copied)
		same := r.restore(t, maintenance.Restoration{Snapshot: out.Snapshot})
		require.Zero(t, same.Snapshot, "nothing is to change")
		require.Equal(t, 3, same.Unchanged)
	}
}

// withoutUpdated returns rows without the sequence number of their last update.
func withoutUpdated(rows []string) []string {
	out := []string{}
	for _, row := range rows {
		var id, country, number string
		_, _ = fmt.Sscanf(row, "id=%s", &id)
		for _, part := range []struct {
			name string
			to   *string
		}{{" country=%s", &country}, {" _row_id=%s", &number}} {
			for at := range row {
				if n, _ := fmt.Sscanf(row[at:], part.name, part.to); n == 1 {
					break
				}
			}
		}
		out = append(out, id+" "+country+" "+number)
	}
	return out
}

// Deletes at the time of the snapshot are applied, and later ones are not.
//
// spec: compact-23
func TestDeletesOfTheTimeAreRestored(t *testing.T) {
	for version := 2; version <= 3; version++ {
		r := newRig(t, stagetest.Unlimited, nil)
		r.plain(t, version)
		r.appends(t, 3)
		if version == 2 {
			r.ErasePositions(t, true, 0, r.Listed(t, "")[1])
		} else {
			r.EraseByVector(t, r.Listed(t, "")[1], 0)
		}
		then, snapshot := r.written(t, ""), r.current(t)
		r.EraseValues(t, r.Listed(t, "")[0], 1)
		require.Less(t, len(r.written(t, "")), len(then))
		out := r.restore(t, maintenance.Restoration{Snapshot: snapshot})
		require.Equal(t, 2, out.Copied, "%+v", out)
		require.Equal(t, 1, out.Rewritten)
		require.Equal(t, withoutUpdated(then), withoutUpdated(r.written(t, "")))
		for _, f := range r.Listed(t, "") {
			require.True(t, f.Deletes.None())
		}
	}
}

// spec: compact-20, compact-25
func TestOtherPartitionsStay(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	snapshot := r.current(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}, stagetest.Schema(), `[{"id": 9, "day": "2026-10-01"}]`)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 8, "day": "2026-10-02"}, {"id": 7, "day": "2026-10-03"}]`)
	later := r.current(t)
	out := r.restore(t, maintenance.Restoration{Snapshot: snapshot, Partition: []string{"day=2026-10-01"}})
	require.Equal(t, 2, out.Copied)
	require.Equal(t, 1, out.Removed)
	ids := r.Column(t, "", "id")
	slices.Sort(ids)
	require.Equal(t, []string{"(null)", "1", "2", "3", "7", "8"}, ids)

	// A partition that was empty is emptied, and the first unchanged files stay.
	out = r.restore(t, maintenance.Restoration{Snapshot: snapshot, Partition: []string{"day=2026-10-02", "day=2026-10-03"}})
	require.Equal(t, 2, out.Removed)
	require.Equal(t, 2, out.Unchanged)
	require.Zero(t, out.Copied)
	ids = r.Column(t, "", "id")
	slices.Sort(ids)
	require.Equal(t, []string{"(null)", "1", "2", "3"}, ids)

	for text, request := range map[string]maintenance.Restoration{
		"neither at snapshot":           {Snapshot: later, Partition: []string{"day=2026-11-01"}},
		"no longer exists":              {Snapshot: 12345},
		"is not the id of a snapshot":   {},
		"has no partition field":        {Snapshot: later, Partition: []string{"dai=2026-11-01"}},
		"is not a token":                {Snapshot: later, Token: "x\n"},
		"has no branch or tag \"none\"": {Snapshot: later, Branch: "none"},
	} {
		request.Table = stagetest.History
		_, err := r.rewriter.Restore(t.Context(), request)
		require.ErrorContains(t, err, text)
	}
	_, err := r.rewriter.Restore(t.Context(), maintenance.Restoration{Table: stagetest.History, Snapshot: 12345})
	require.Equal(t, fault.Expired, fault.KindOf(err))
}

// spec: compact-24, compact-26
func TestOthersCommitDuringARestoration(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.plain(t, 2)
	r.appends(t, 2)
	then, snapshot := r.written(t, ""), r.current(t)
	r.EraseValues(t, r.Listed(t, "")[0], 1)
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.Tables.OnCommit = nil
		r.appends(t, 1)
		return r.Tables.Commit(ctx, change)
	}
	r.restore(t, maintenance.Restoration{Snapshot: snapshot})
	require.Equal(t, then, r.written(t, ""), "what others added to the partition goes, too")
	require.Len(t, r.Listed(t, ""), 2)
}

// If another call with the same token commits first, this call removes its files and returns the
// other's change.
//
// spec: compact-24
func TestEqualTokensRestoreOnce(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.plain(t, 2)
	r.appends(t, 2)
	snapshot := r.current(t)
	r.EraseValues(t, r.Listed(t, "")[0], 1)
	request := maintenance.Restoration{Snapshot: snapshot, Token: commit.NewToken(time.Now(), "twin")}
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.Tables.OnCommit = nil
		r.restore(t, request)
		return r.Tables.Commit(ctx, change)
	}
	files := len(r.Parquet(t))
	out := r.restore(t, request)
	require.Equal(t, maintenance.RestorationResult{Token: request.Token, Snapshot: out.Snapshot, Parent: out.Parent, Existed: true}, out)
	restored := 0
	for _, f := range r.Listed(t, "") {
		if strings.Contains(f.Location, commit.FilePrefix(request.Token)) {
			restored++
		}
	}
	require.Positive(t, restored)
	require.Len(t, r.Parquet(t), files+restored, "the files of the second call are gone")
}

// spec: compact-26
func TestFailuresOfRestorationsLeaveNothing(t *testing.T) {
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish, errstore.Create, errstore.Open, errstore.Read} {
		t.Run(fmt.Sprint(call), func(t *testing.T) {
			r := newRig(t, stagetest.Unlimited, nil)
			r.plain(t, 2)
			r.appends(t, 2)
			then, snapshot := r.written(t, ""), r.current(t)
			r.EraseValues(t, r.Listed(t, "")[0], 1)
			rows, before := r.written(t, ""), r.Parquet(t)
			failing := r.broken(t, errstore.Rule{Call: call, Nth: 1, Action: errstore.Fail(nil)})
			_, err := failing.rewriter.Restore(t.Context(), maintenance.Restoration{Table: stagetest.History, Snapshot: snapshot})
			require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
			require.Equal(t, before, r.Parquet(t))
			require.Equal(t, rows, r.written(t, ""))
			r.restore(t, maintenance.Restoration{Snapshot: snapshot})
			require.Equal(t, then, r.written(t, ""))
		})
	}
}

// Restored files of several commits and partitions have their original order, and so do their rows.
// Files that another program wrote without a sort order are restored without one.
//
// spec: compact-22, compact-23, compact-25
func TestFilesAreRestoredAsTheyWere(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.Daily(t)
	for i := range 4 {
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": 1, "country": "C%d", "day": "2026-10-0%d"}, {"id": 1, "country": "A", "day": "2026-10-0%[2]d"}]`, i, 4-i))
	}
	then, snapshot := r.written(t, ""), r.current(t)
	// The second file changes, so it and all later files are copied.
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}, stagetest.Schema(), `[{"id": 1, "country": "X", "day": "2026-10-03"}]`)
	out := r.restore(t, maintenance.Restoration{Snapshot: snapshot})
	require.Equal(t, 3, out.Copied)
	require.Equal(t, 1, out.Unchanged)
	require.Equal(t, 3, out.Removed)
	require.Equal(t, then, r.written(t, ""))

	// The snapshot has an unsorted file with deletes. The table has a sorted file in its place now.
	sorted := newRig(t, stagetest.Unlimited, nil)
	sorted.plain(t, 2)
	sorted.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 1}, {"id": 2}, {"id": 3}]`)
	one := sorted.Listed(t, "")[0]
	sorted.unsorted(t, one)
	sorted.ErasePositions(t, false, 1, one, sorted.Listed(t, "")[1])
	then, snapshot = sorted.written(t, ""), sorted.current(t)
	sorted.appends(t, 1)
	sorted.compact(t, maintenance.Compaction{MinFiles: 2})
	out = sorted.restore(t, maintenance.Restoration{Snapshot: snapshot})
	require.Equal(t, 2, out.Rewritten)
	require.Equal(t, then, sorted.written(t, ""))
	require.Equal(t, []int{one.SortOrder, 0}, []int{sorted.Listed(t, "")[0].SortOrder, sorted.Listed(t, "")[1].SortOrder})

	// A file has a partition spec without days.
	sorted.asNewSpec(t)
	_, err := sorted.rewriter.Restore(t.Context(), maintenance.Restoration{Table: stagetest.History, Snapshot: snapshot, Partition: []string{"day=2026-10-01"}})
	require.ErrorContains(t, err, "older partition spec that does not tell whether it is in the partition")
}

// unsorted adds a file of unsorted rows to the partition of another file.
func (r *rig) unsorted(t *testing.T, beside catalog.File) {
	t.Helper()
	ids := array.NewInt64Builder(memory.DefaultAllocator)
	ids.AppendValues([]int64{6, 5, 4, 9}, nil)
	content := r.FileOf(t, []string{"id"}, []int{1}, ids.NewArray())
	path := filepath.Join(r.Dir, "unsorted.Parquet")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	_, err := r.Tables.Commit(t.Context(), commit.Change{Table: stagetest.History, Add: []commit.DataFile{{
		Location: "file://" + path, Spec: beside.Spec, Partition: beside.Partition, Rows: 4, Bytes: int64(len(content)),
	}}})
	require.NoError(t, err)
}

// asNewSpec makes the day a partition field of the table.
func (r *rig) asNewSpec(t *testing.T) {
	t.Helper()
	tx := r.Load(t).NewTransaction()
	require.NoError(t, tx.UpdateSpec(true).AddField("day", iceberg.IdentityTransform{}, "day").Commit())
	_, err := tx.Commit(t.Context())
	require.NoError(t, err)
}
