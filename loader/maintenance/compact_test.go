package maintenance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// compact compacts the table and requires success.
func (r *rig) compact(t *testing.T, request maintenance.Compaction) maintenance.CompactionResult {
	t.Helper()
	request.Table = stagetest.History
	out, err := r.rewriter.Compact(t.Context(), request)
	require.NoError(t, err)
	return out
}

// written returns all rows of a branch in the order in which they were written, with row ids if
// there are any.
func (r *rig) written(t *testing.T, branch string) []string {
	t.Helper()
	pinned, err := r.Tables.Table(t.Context(), stagetest.History, dataset.Ref{Name: branch})
	require.NoError(t, err)
	columns := slices.Concat(pinned.Fields, pinned.Lineage)
	source := plan.Source{Table: pinned}
	for _, f := range columns {
		source.Planned = append(source.Planned, f.ID)
	}
	slices.Sort(source.Planned)
	files, err := r.Tables.Files(t.Context(), pinned, source.Planned, nil)
	require.NoError(t, err)
	for _, f := range files {
		source.Files = append(source.Files, plan.FileRange{File: f, To: f.Rows})
	}
	reader, err := r.Tables.Read(r.Budget)(t.Context(), source, columns)
	require.NoError(t, err)
	defer reader.Release()
	out := []string{}
	for reader.Next() {
		b := reader.RecordBatch()
		for row := range int(b.NumRows()) {
			var line strings.Builder
			for i, column := range b.Columns() {
				fmt.Fprintf(&line, "%s=%s ", b.ColumnName(i), column.ValueStr(row))
			}
			out = append(out, line.String())
		}
	}
	require.NoError(t, reader.Err())
	return out
}

// sameByKey requires that two lists have the same rows, and the same order of the rows of each id.
func sameByKey(t *testing.T, want, got []string) {
	t.Helper()
	require.ElementsMatch(t, want, got)
	byKey := func(rows []string) map[string][]string {
		out := map[string][]string{}
		for _, row := range rows {
			id := row[strings.Index(row, "id="):]
			id = id[:strings.Index(id, " ")]
			out[id] = append(out[id], row)
		}
		return out
	}
	require.Equal(t, byKey(want), byKey(got))
}

// appends stages a few rows with each of several calls.
func (r *rig) appends(t *testing.T, calls int) {
	t.Helper()
	for i := range calls {
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": 1, "country": "C%d", "day": "2026-10-01"}, {"id": %d, "country": "D", "day": "2026-10-01"}]`, i, i))
	}
}

// spec: compact-1, compact-2, compact-3, compact-6, compact-9
func TestSmallFilesBecomeOne(t *testing.T) {
	for version := 1; version <= 3; version++ {
		r := newRig(t, stagetest.Unlimited, nil)
		require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
			Table: stagetest.History, Version: version, Columns: []commit.NewColumn{
				{ID: 1, Name: "id", Type: "long"},
				{ID: 2, Name: "day", Type: "date"},
				{ID: 4, Name: "country", Type: "string"},
				{ID: 3, Name: "items", Type: `{"type":"list","element-id":5,"element":"long","element-required":false}`},
			},
			Partition: []commit.PartitionBy{{Column: 1, Name: "id_bucket", Transform: "bucket[4]"}}, Sort: []commit.SortBy{{Column: 1}},
		}))
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
		r.appends(t, 5)
		before, files := r.written(t, ""), r.Listed(t, "")
		kept := r.compact(t, maintenance.Compaction{MinFiles: 9})
		require.Zero(t, kept.Commits, "no partition has as many files")
		out := r.compact(t, maintenance.Compaction{MinFiles: 2, AnyOrder: version == 1})
		after := r.written(t, "")
		if version == 1 {
			require.ElementsMatch(t, before, after)
		} else {
			sameByKey(t, before, after)
		}
		require.Less(t, len(r.Listed(t, "")), len(files))
		require.LessOrEqual(t, len(r.Listed(t, "")), 4)
		require.Equal(t, 1, out.Commits)
		require.Zero(t, out.Deleted)
		state, err := r.Tables.State(t.Context(), stagetest.History, "")
		require.NoError(t, err)
		require.Equal(t, out.Snapshot, state.Table.Pin.Snapshot)
		require.Equal(t, "replace", string(r.Load(t).CurrentSnapshot().Summary.Operation))
		for _, f := range r.Listed(t, "") {
			require.Equal(t, state.SortOrder, f.SortOrder)
		}
		again := r.compact(t, maintenance.Compaction{MinFiles: 2, AnyOrder: version == 1})
		require.Zero(t, again.Commits)
		require.Zero(t, again.Kept)
	}
}

// Files of format version 1 are not rewritten if row order matters: they have no sequence numbers
// that new files could keep.
//
// spec: compact-6
func TestFilesWithoutSequenceNumbersStay(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: stagetest.History, Version: 1, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}, {ID: 2, Name: "day", Type: "date"}, {ID: 4, Name: "country", Type: "string"}, {ID: 3, Name: "items", Type: `{"type":"list","element-id":5,"element":"long","element-required":false}`}},
		Partition: []commit.PartitionBy{{Column: 1, Name: "id_bucket", Transform: "bucket[4]"}},
	}))
	r.appends(t, 3)
	out := r.compact(t, maintenance.Compaction{MinFiles: 2})
	require.Zero(t, out.Commits)
	require.NotZero(t, out.Kept)
}

// All kinds of deletes are applied, and delete files that no longer apply to a file are removed.
//
// spec: compact-1, compact-2, compact-4, compact-5
func TestDeletedRowsAreLeftOut(t *testing.T) {
	for version := 2; version <= 3; version++ {
		for name, erase := range map[string]func(t *testing.T, r *rig, f []catalog.File){
			"named":    func(t *testing.T, r *rig, f []catalog.File) { r.ErasePositions(t, true, 0, f[0]) },
			"scoped":   func(t *testing.T, r *rig, f []catalog.File) { r.ErasePositions(t, false, 0, f[0], f[1]) },
			"equality": func(t *testing.T, r *rig, f []catalog.File) { r.EraseValues(t, f[0], 1) },
			"vector":   func(t *testing.T, r *rig, f []catalog.File) { r.EraseByVector(t, f[1], 0) },
			"mixed": func(t *testing.T, r *rig, f []catalog.File) {
				r.EraseValues(t, f[0], 3)
				r.appends(t, 1)
				r.ErasePositions(t, true, 0, f[1])
			},
		} {
			if (name == "vector") != (version == 3) && name != "equality" {
				continue // position deletes cannot be added in version 3
			}
			t.Run(fmt.Sprint(name, " ", version), func(t *testing.T) {
				r := newRig(t, stagetest.Unlimited, nil)
				r.plain(t, version)
				r.appends(t, 4)
				erase(t, r, r.Listed(t, ""))
				r.appends(t, 1)
				before := r.written(t, "")
				out := r.compact(t, maintenance.Compaction{})
				require.Equal(t, 1, out.Commits)
				require.NotZero(t, out.Deleted)
				sameByKey(t, before, r.written(t, ""))
				for _, f := range r.Listed(t, "") {
					require.True(t, f.Deletes.None(), "%v", f)
				}
				require.Equal(t, "0", r.Load(t).CurrentSnapshot().Summary.Properties["total-delete-files"])
				require.Zero(t, r.compact(t, maintenance.Compaction{}).Commits)
			})
		}
	}
}

// plain creates the table with one partition, sorted by the id.
func (r *rig) plain(t *testing.T, version int) {
	t.Helper()
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: stagetest.History, Version: version, Columns: []commit.NewColumn{
			{ID: 1, Name: "id", Type: "long"},
			{ID: 2, Name: "day", Type: "date"},
			{ID: 4, Name: "country", Type: "string"},
			{ID: 3, Name: "items", Type: `{"type":"list","element-id":5,"element":"long","element-required":false}`},
		},
		Partition: []commit.PartitionBy{{Column: 1, Name: "id_bucket", Transform: "bucket[1]"}}, Sort: []commit.SortBy{{Column: 1}},
	}))
}

// Partitions whose keys occur in one row each are compacted regardless of the order of their
// commits. Other partitions are not changed.
//
// spec: compact-6, compact-14
func TestKeysThatOccurOnceAreCompactedInAnyOrder(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.Daily(t)
	stage := func(id, day int) {
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": %d, "country": "C%d", "day": "2026-10-0%d"}]`, id, day, day))
	}
	for id := range 4 {
		for _, day := range []int{1, 2} {
			stage(10*id+day, day)
		}
	}
	files := len(r.Listed(t, ""))
	before := r.written(t, "")
	dry := r.compact(t, maintenance.Compaction{MinFiles: 2, AnyOrder: true, DryRun: true})
	require.Positive(t, dry.Files)
	out := r.compact(t, maintenance.Compaction{MinFiles: 2, DryRun: true})
	require.Equal(t, []int{dry.Files, 0}, []int{out.Files, out.Kept})
	out = r.compact(t, maintenance.Compaction{MinFiles: 2})
	require.Equal(t, []int{dry.Files, 0}, []int{out.Files, out.Kept})
	require.Less(t, len(r.Listed(t, "")), files)
	require.ElementsMatch(t, before, r.written(t, ""))

	// A key has rows in two days, and a file of the second day was written between two of the
	// first.
	for _, day := range []int{1, 2, 1, 2} {
		stage(77, day)
	}
	before = r.written(t, "")
	out = r.compact(t, maintenance.Compaction{MinFiles: 2})
	require.Positive(t, out.Kept)
	sameByKey(t, before, r.written(t, ""))
}

// Rows of a key in several days stay in the order of their commits, unless the call allows any
// order.
//
// spec: compact-6, compact-7
func TestRowsOfAKeyStayInTheirOrder(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.Daily(t)
	for i := range 6 {
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": 1, "country": "C%d", "day": "2026-10-0%d"}]`, i, 1+i/2%2))
	}
	before := r.written(t, "")
	out := r.compact(t, maintenance.Compaction{MinFiles: 2})
	sameByKey(t, before, r.written(t, ""))
	require.Equal(t, 6, out.Files, "three pairs of files")
	require.Equal(t, 3, out.FilesWritten)
	require.Zero(t, out.Kept)
	out = r.compact(t, maintenance.Compaction{MinFiles: 2})
	require.Zero(t, out.Commits)
	require.Equal(t, 2, out.Kept, "files of the first day, around one of the second")
	out = r.compact(t, maintenance.Compaction{MinFiles: 2, AnyOrder: true})
	require.Equal(t, 2, out.Files, "the first day has two")
	require.ElementsMatch(t, before, r.written(t, ""))
}

// spec: compact-10, compact-11
func TestPartitionsAreChosen(t *testing.T) {
	r := newRig(t, stagetest.Unlimited, nil)
	r.Daily(t)
	for i := range 4 {
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": 1, "country": "C%d", "day": "2026-10-01"}]`, i))
	}
	for i := range 4 {
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), fmt.Sprintf(`[{"id": 1, "country": "C%d", "day": "2026-10-02"}]`, i))
	}
	before := r.Parquet(t)
	dry := r.compact(t, maintenance.Compaction{DryRun: true, Partition: []string{"day=2026-10-02"}})
	require.Equal(t, 4, dry.Files)
	require.EqualValues(t, 4, dry.Rows)
	require.Equal(t, 1, dry.FilesWritten)
	require.NotZero(t, dry.BytesWritten)
	require.Equal(t, before, r.Parquet(t))
	done := r.compact(t, maintenance.Compaction{Partition: []string{"day=2026-10-02"}})
	require.Equal(t, dry.Files, done.Files)
	require.Equal(t, dry.Bytes, done.Bytes)
	require.Len(t, r.Listed(t, ""), 5)
	for text, want := range map[string]string{"day=2026-10-03": "no file of table", "dey=1": `did you mean "day"`, "day": "write a field and a value"} {
		_, err := r.rewriter.Compact(t.Context(), maintenance.Compaction{Table: stagetest.History, Partition: []string{text}})
		require.ErrorContains(t, err, want)
	}
}

// Rows that other writers commit during a compaction stay, and rows that they delete are deleted.
//
// spec: compact-8
func TestOthersCommitDuringACompaction(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, r *rig){
		"appends": func(t *testing.T, r *rig) { r.appends(t, 2) },
		"deletes": func(t *testing.T, r *rig) { r.ErasePositions(t, true, 0, r.Listed(t, "")[0]) },
		"replaces": func(t *testing.T, r *rig) {
			require.NotZero(t, r.compact(t, maintenance.Compaction{MinFiles: 2}).Commits)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, stagetest.Unlimited, nil)
			r.plain(t, 2)
			r.appends(t, 4)
			var before []string
			r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
				r.Tables.OnCommit = nil
				meanwhile(t, r)
				before = r.written(t, "")
				return r.Tables.Commit(ctx, change)
			}
			r.compact(t, maintenance.Compaction{})
			sameByKey(t, before, r.written(t, ""))
		})
	}
}

// Whichever storage call fails, committed groups stay and the files of the current group are
// removed.
//
// spec: compact-12
func TestFailuresOfCompactionsLeaveNothing(t *testing.T) {
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish, errstore.Create, errstore.Open} {
		t.Run(fmt.Sprint(call), func(t *testing.T) {
			r := newRig(t, stagetest.Unlimited, nil)
			r.plain(t, 2)
			r.appends(t, 4)
			rows, before := r.written(t, ""), r.Parquet(t)
			failing := r.broken(t, errstore.Rule{Call: call, Nth: 1, Action: errstore.Fail(nil)})
			_, err := failing.rewriter.Compact(t.Context(), maintenance.Compaction{Table: stagetest.History})
			require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
			require.Equal(t, before, r.Parquet(t))
			require.Equal(t, rows, r.written(t, ""))
			require.Equal(t, 1, r.compact(t, maintenance.Compaction{}).Commits)
			sameByKey(t, rows, r.written(t, ""))
		})
	}
	t.Run("uncertain", func(t *testing.T) {
		r := newRig(t, stagetest.Unlimited, nil)
		r.plain(t, 2)
		r.appends(t, 4)
		rows := r.written(t, "")
		r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
			r.Tables.OnCommit = nil
			_, err := r.Tables.Commit(ctx, change)
			require.NoError(t, err)
			return commit.Committed{}, commit.AsUncertain(fault.New(fault.Unavailable, "no answer"))
		}
		_, err := r.rewriter.Compact(t.Context(), maintenance.Compaction{Table: stagetest.History})
		require.True(t, commit.Uncertain(err))
		require.Contains(t, fault.As(err).Remedy, "repeat the call")
		sameByKey(t, rows, r.written(t, ""))
		require.Zero(t, r.compact(t, maintenance.Compaction{}).Commits)
	})
}

// A compaction reads, sorts and writes within the budget.
//
// spec: compact-13
func TestCompactionsStayWithinTheBudget(t *testing.T) {
	const limit, calls, size = 24 << 20, 4, 100_000
	r := newRig(t, limit, nil)
	r.plain(t, 2)
	ctx, entered := r.Budget.Enter(t.Context(), "test")
	defer entered.Release()
	for call := range calls {
		ids := array.NewInt64Builder(memory.DefaultAllocator)
		texts := array.NewStringBuilder(memory.DefaultAllocator)
		for i := range size {
			ids.Append(int64((i*7919 + call) % size))
			texts.Append(fmt.Sprintf("%x-%x", i*104729%1000003, call))
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "country", Type: arrow.BinaryTypes.String}}, nil)
		reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{array.NewRecordBatch(schema, []arrow.Array{ids.NewArray(), texts.NewArray()}, size)})
		require.NoError(t, err)
		_, err = r.Stager.Stage(ctx, stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History}, reader)
		require.NoError(t, err)
	}
	out, err := r.rewriter.Compact(ctx, maintenance.Compaction{Table: stagetest.History, MinFiles: 2, FileBytes: 64 << 20})
	require.NoError(t, err)
	require.EqualValues(t, calls*size, out.Rows)
	require.Equal(t, 1, out.FilesWritten)
	require.Zero(t, out.Deleted)
	require.LessOrEqual(t, r.Budget.Peak(), int64(limit))
	ids := map[string]int{}
	for _, id := range r.Column(t, "", "id") {
		ids[id]++
	}
	require.Len(t, ids, size)
	for _, n := range ids {
		require.Equal(t, calls, n)
	}
}
