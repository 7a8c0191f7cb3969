package history_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// second is a time of these tests.
func second(n int64) time.Time { return time.Date(2026, time.November, 1, 0, 0, int(n), 0, time.UTC) }

// own is a snapshot of a command of Penstock, and other one of Spark.
func own(id, parent int64) history.Snapshot {
	return history.Snapshot{ID: id, Parent: parent, Time: second(id), Operation: "append", Summary: map[string]string{
		commit.SummaryToken: "t", commit.SummaryCommand: "stage", "added-records": "10", "added-files-size": "100", "added-data-files": "2", "total-records": "30",
	}}
}

func other(id, parent int64) history.Snapshot {
	return history.Snapshot{ID: id, Parent: parent, Time: second(id), Operation: "overwrite", Summary: map[string]string{
		"engine-name": "spark", "engine-version": "4.0", "deleted-records": "5",
	}}
}

func promoted(id, parent int64) history.Snapshot {
	return history.Snapshot{ID: id, Parent: parent, Time: second(id), Operation: "replace", Summary: map[string]string{commit.SummaryPromotion: "p", commit.SummaryCommand: "promote"}}
}

// demoted is a promotion without columns in the schema.
func demoted(id, parent int64) history.Snapshot {
	out := promoted(id, parent)
	out.Summary[commit.SummaryPromotion] = "gone"
	return out
}

// table returns a table whose main is at a snapshot.
func table(main int64, moves []int64, snapshots ...history.Snapshot) *history.Table {
	return &history.Table{Name: "ml.t", Snapshots: snapshots, Moves: moves, Moved: second(90), Refs: map[string]history.Ref{"main": {Snapshot: main}}}
}

func demotable(promotion string) string { return map[string]string{"p": "last_pins"}[promotion] }

// TestLogOfABranch has its snapshots, their refs, and what takes them back.
//
// spec: history-4, history-5, history-6, history-29
func TestLogOfABranch(t *testing.T) {
	long := table(4, nil, own(1, 0), other(2, 1), own(3, 2), own(4, 3), own(5, 3))
	maps.Copy(long.Refs, map[string]history.Ref{
		"old": {Snapshot: 2, Tag: true}, "penstock-2": {Snapshot: 2, Tag: true, Until: second(60)}, "penstock-3": {Snapshot: 2, Tag: true}, "candidate": {Snapshot: 5},
	})
	got, err := long.LogOf("", 0, demotable)
	require.NoError(t, err)
	n := func(v int64) *int64 { return &v }
	staged := func(id, parent int64) history.Entry {
		return history.Entry{
			Snapshot: id, Parent: parent, Time: second(id), Operation: "append", Writer: "penstock stage", Token: "t",
			RowsAdded: n(10), BytesAdded: n(100), FilesAdded: n(2), Rows: n(30),
		}
	}
	newest, before, first := staged(4, 3), staged(3, 2), staged(1, 0)
	newest.Branches, newest.Undo, before.Undo = []string{"main"}, &history.Undo{From: 3, To: 4}, &history.Undo{From: 2, To: 4}
	require.Equal(t, history.Log{Table: "ml.t", Branch: "main", Snapshots: []history.Entry{
		newest, before,
		{
			Snapshot: 2, Parent: 1, Time: second(2), Operation: "overwrite", Writer: "spark 4.0", RowsRemoved: n(5),
			Tags: []string{"old", "penstock-3"}, Pins: []history.Pin{{Tag: "penstock-2", Until: second(60)}},
		},
		first,
	}, OtherRefs: []history.NamedRef{{Name: "candidate", Snapshot: 5}}}, got)

	got, err = long.LogOf("candidate", 1, demotable)
	require.NoError(t, err)
	require.Equal(t, 3, got.Older)
	require.Equal(t, []history.NamedRef{{Name: "main", Snapshot: 4}, {Name: "old", Tag: true, Snapshot: 2}, {Name: "penstock-3", Tag: true, Snapshot: 2}}, got.OtherRefs)
	require.Equal(t, &history.Undo{Branch: "candidate", From: 3, To: 5}, got.Snapshots[0].Undo)
	got, err = long.LogOf("old", 0, demotable)
	require.NoError(t, err)
	require.Nil(t, got.Snapshots[1].Undo, "a tag does not move")
	_, err = long.LogOf("candidat", 0, demotable)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.ErrorContains(t, err, `"candidat"`)

	got, err = table(3, nil, own(1, 0), promoted(2, 1), own(3, 2)).LogOf("", 0, demotable)
	require.NoError(t, err)
	require.Equal(t, []any{"last_pins", "penstock promote"}, []any{got.Snapshots[1].Demote, got.Snapshots[1].Writer})
	require.Nil(t, got.Snapshots[1].Undo)
	require.Nil(t, got.Snapshots[2].Undo, "the promotion would be taken back with it")
	got, err = table(4, nil, own(1, 0), own(2, 1), demoted(3, 2), own(4, 3)).LogOf("", 0, demotable)
	require.NoError(t, err)
	require.Equal(t, history.Undo{From: 3, To: 4}, *got.Snapshots[0].Undo)
	require.Empty(t, got.Snapshots[1].Demote)
	require.Nil(t, got.Snapshots[1].Undo)
	require.Equal(t, history.Undo{From: 1, To: 4}, *got.Snapshots[2].Undo)
	got, err = table(3, nil, own(3, 2)).LogOf("", 0, demotable)
	require.NoError(t, err)
	require.Nil(t, got.Snapshots[0].Undo, "its parent has expired")
	unborn := table(0, nil, own(1, 0))
	unborn.Refs = map[string]history.Ref{"next": {Snapshot: 1}}
	got, err = unborn.LogOf("", 0, demotable)
	require.NoError(t, err)
	require.Empty(t, got.Snapshots)
	require.Equal(t, []history.NamedRef{{Name: "next", Snapshot: 1}}, got.OtherRefs)
}

// TestLastChange of Penstock is one commit, or the commits that a publication moved main over.
//
// spec: history-8, history-9, history-10
func TestLastChange(t *testing.T) {
	expired := table(3, nil, own(3, 2))
	for name, c := range map[string]struct {
		table    *history.Table
		from, to int64
		taken    int
		kind     fault.Kind
		says     string
	}{
		"the last of several":               {table: table(2, []int64{1, 2}, own(1, 0), own(2, 1)), from: 1, to: 2, taken: 1},
		"the first":                         {table: table(1, []int64{1}, own(1, 0)), from: 0, to: 1, taken: 1},
		"a publication":                     {table: table(3, []int64{1, 3}, own(1, 0), own(2, 1), own(3, 2)), from: 1, to: 3, taken: 2},
		"after an undo":                     {table: table(2, []int64{1, 2, 3, 2}, own(1, 0), own(2, 1), own(3, 2)), kind: fault.Conflict, says: "was taken back already: main was moved back at 2026-11-01T00:01:30Z from snapshot 3 to snapshot 2"},
		"after an undo to the first":        {table: table(1, []int64{1, 2, 1}, own(1, 0), own(2, 1)), kind: fault.Conflict, says: "from snapshot 2 to snapshot 1"},
		"a change after an undo":            {table: table(4, []int64{1, 2, 3, 2, 4}, own(1, 0), own(2, 1), own(3, 2), own(4, 2)), from: 2, to: 4, taken: 1},
		"after an undo of what has expired": {table: table(2, []int64{1, 2, 3, 2}, own(1, 0), own(2, 1)), from: 1, to: 2, taken: 1},
		"others before":                     {table: table(3, nil, own(1, 0), other(2, 1), own(3, 2)), from: 2, to: 3, taken: 1},
		"others since":                      {table: table(3, nil, own(1, 0), own(2, 1), other(3, 2)), kind: fault.Conflict, says: "since the last change of Penstock, snapshot 2 of 2026-11-01T00:00:02Z: 3 of 2026-11-01T00:00:03Z spark 4.0"},
		"others published with it":          {table: table(3, []int64{1, 3}, own(1, 0), other(2, 1), own(3, 2)), kind: fault.Conflict, says: "2 of 2026-11-01T00:00:02Z spark 4.0"},
		"only others":                       {table: table(2, nil, other(1, 0), other(2, 1)), kind: fault.NotFound, says: "its snapshots are of others: 2 of"},
		"none":                              {table: table(0, nil), kind: fault.NotFound, says: "has no change of Penstock"},
		"a promotion":                       {table: table(2, nil, own(1, 0), promoted(2, 1)), kind: fault.Conflict, says: "is a promotion"},
		"others after a promotion":          {table: table(3, nil, own(1, 0), promoted(2, 1), other(3, 2)), kind: fault.Conflict, says: "since the last change of Penstock, snapshot 2"},
		"published with promotions":         {table: table(3, []int64{1, 3}, own(1, 0), promoted(2, 1), own(3, 2)), kind: fault.Conflict, says: "is a promotion"},
		"a promotion that was demoted":      {table: table(3, nil, own(1, 0), own(2, 1), demoted(3, 2)), kind: fault.Conflict, says: "name its snapshots: --from 1 --to 3"},
		"two that were demoted":             {table: table(4, []int64{2, 3, 4}, own(2, 0), demoted(3, 2), demoted(4, 3)), kind: fault.Conflict, says: "the schema of table ml.t has no columns of the promotion of snapshots 4, 3: it was interrupted, or demote took it back; it changed no row; to continue it, repeat promote; to take the change before it back too, name its snapshots: --from none --to 4 --yes"},
		"a change after one":                {table: table(4, nil, own(2, 0), demoted(3, 2), own(4, 3)), from: 3, to: 4, taken: 1},
		"others after one":                  {table: table(4, nil, own(2, 0), demoted(3, 2), other(4, 3)), kind: fault.Conflict, says: "since the last change of Penstock, snapshot 2"},
		"before it has expired":             {table: expired, kind: fault.Expired, says: "snapshot 2 of table ml.t, which was before the last change, no longer exists"},
	} {
		made, taken, err := c.table.LastChange("", demotable)
		if c.says != "" {
			require.Equal(t, c.kind.String(), fault.KindOf(err).String(), name)
			require.ErrorContains(t, err, c.says, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, commit.Move{Table: "ml.t", Ref: "main", From: c.from, To: c.to}, made, name)
		require.Len(t, taken, c.taken, name)
		require.Equal(t, c.to, taken[0].Snapshot, name)
	}
	undone := table(2, []int64{1, 2, 3, 2}, own(1, 0), own(2, 1), own(3, 2))
	_, _, err := undone.LastChange("", demotable)
	require.Equal(t, "to take the change before it back too, name its snapshots: --from 1 --to 2", fault.As(err).Remedy)
	branched := table(1, nil, own(1, 0), own(2, 1), own(3, 2))
	branched.Refs["candidate"], branched.Refs["tag"] = history.Ref{Snapshot: 3}, history.Ref{Snapshot: 3, Tag: true}
	made, _, err := branched.LastChange("candidate", demotable)
	require.NoError(t, err)
	require.Equal(t, commit.Move{Table: "ml.t", Ref: "candidate", From: 2, To: 3}, made)
	begun := own(2, 1)
	begun.Summary[commit.SummaryBegan] = "candidate"
	branched = table(1, nil, own(1, 0), begun, own(3, 2))
	branched.Refs["candidate"], branched.Refs["second"], branched.Refs["tag"] = history.Ref{Snapshot: 2}, history.Ref{Snapshot: 2}, history.Ref{Snapshot: 3, Tag: true}
	made, taken, err := branched.LastChange("candidate", demotable)
	require.NoError(t, err)
	require.Equal(t, commit.Move{Table: "ml.t", Ref: "candidate", To: 2}, made, "the branch is removed, as it did not exist before")
	require.Len(t, taken, 1)
	made, _, err = branched.LastChange("second", demotable)
	require.NoError(t, err)
	require.Equal(t, int64(1), made.From)
	log, err := branched.LogOf("candidate", 0, demotable)
	require.NoError(t, err)
	require.Equal(t, &history.Undo{Branch: "candidate", To: 2}, log.Snapshots[0].Undo)
	require.Nil(t, log.Snapshots[1].Undo, "it was of main before the branch began")
	for _, name := range []string{"tag", "nothing"} {
		_, _, err = branched.LastChange(name, demotable)
		require.Error(t, err)
	}
}

// TestTableIsDescribed by the summary of its snapshot.
//
// spec: history-2, history-3
func TestTableIsDescribed(t *testing.T) {
	full := own(1, 0)
	maps.Copy(full.Summary, map[string]string{"total-files-size": "900", "total-data-files": "3", "total-position-deletes": "2", "total-equality-deletes": "1"})
	of := table(1, nil, full)
	of.Partition = []string{"bucket[16](id)"}
	got := of.Describe(true)
	require.Equal(t, []int64{1, 30, 3, 900, 3}, []int64{got.Snapshot, *got.Rows, *got.Deletes, *got.Bytes, *got.Files})
	require.Equal(t, history.Description{Table: "ml.t", Partition: []string{"bucket[16](id)"}, Datasets: []string{}, Withheld: true}, of.Describe(false))
	got = table(2, nil, other(2, 1)).Describe(true)
	require.Nil(t, got.Rows, "the writer did not count them")
	got = table(0, nil).Describe(true)
	require.Equal(t, []int64{0, 0, 0}, []int64{got.Snapshot, *got.Rows, *got.Files})
	require.True(t, got.Time.IsZero())
}

// spec: stats-20
func TestRefsByTime(t *testing.T) {
	of := table(3, nil, own(1, 0), own(2, 1), own(3, 2), own(9, 2))
	of.Refs["2026-11-02"] = history.Ref{Snapshot: 9}
	for text, want := range map[string]dataset.Ref{
		"2026-11-01T00:00:02Z": {Snapshot: 2}, "2026-11-01T01:00:01+01:00": {Snapshot: 1}, "2026-11-03": {Snapshot: 3},
		"2026-11-02": {Name: "2026-11-02"}, "2": {Snapshot: 2}, "main": {Name: "main"}, "": {},
	} {
		got, err := of.RefAt(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	_, err := of.RefAt("2026-11-01")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}
