package stage_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// unread returns a reader that must not be read.
func unread(t *testing.T, schema *arrow.Schema) array.RecordReader {
	return batch.FromFunc(schema, func() (arrow.RecordBatch, error) {
		require.Fail(t, "rows are read")
		return nil, nil
	}, nil)
}

// spec: stage-30, stage-31, stage-32, stage-33, stage-36
func TestRowsAreStaged(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	request := stagetest.Create()
	request.Token = commit.NewToken(time.Now(), "first")
	request.Key, request.Sort = []string{"id"}, []string{"day desc", "id"}
	first := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.True(t, first.Created)
	require.EqualValues(t, 4, first.Rows)
	require.EqualValues(t, 1, first.NullKeys)
	require.Len(t, r.Parquet(t), first.Files)
	require.ElementsMatch(t, []string{"3", "1", array.NullValueStr, "2"}, r.Column(t, "", "id"))

	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.Equal(t, 2, state.Version)
	require.Equal(t, "zstd", state.Properties["write.parquet.compression-codec"])
	require.Equal(t, catalog.Transform{Kind: catalog.Bucket, N: 4}, state.Table.Specs[state.Spec][0].Transform)
	order := state.Table.SortOrders[state.SortOrder]
	require.True(t, order[0].Descending)
	require.Equal(t, catalog.SortField{Source: 1, Transform: catalog.Transform{Kind: catalog.Identity}, NullsFirst: true}, order[1])
	for _, f := range r.Listed(t, "") {
		require.Equal(t, state.SortOrder, f.SortOrder)
		require.Contains(t, f.Location, "/ml/history/data/id_bucket=")
		require.Contains(t, f.Location, "/"+commit.FilePrefix(request.Token)+"-")
	}

	again, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
	require.NoError(t, err)
	require.Equal(t, first.Snapshot, again.Snapshot)
	require.True(t, again.Existed)
	require.Len(t, r.Parquet(t), first.Files)

	second := r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	require.Equal(t, first.Snapshot, second.Parent)
	require.EqualValues(t, 1, second.NullKeys)
	require.NotEmpty(t, second.Token)
	require.Len(t, r.Column(t, "", "id"), 8)
}

// spec: stage-31
func TestTablesThatCannotBeCreated(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	for text, change := range map[string]func(*dataset.TableWrite){
		"does not exist":                 func(q *dataset.TableWrite) { q.Buckets = 0 },
		`there is no column "idd"`:       func(q *dataset.TableWrite) { q.Key = []string{"idd"} },
		`sort: there is no column "dey"`: func(q *dataset.TableWrite) { q.Sort = []string{"dey"} },
		"sort: rows cannot be sorted":    func(q *dataset.TableWrite) { q.Sort = []string{"items"} },
		"cannot begin at main":           func(q *dataset.TableWrite) { q.Branch = "candidate" },
		"only buckets":                   func(q *dataset.TableWrite) { q.Mode = dataset.WriteReplace },
		"table ml.other":                 func(q *dataset.TableWrite) { q.Like = "ml.other" },
		"may not be changed":             func(q *dataset.TableWrite) { q.Table = "other.history" },
		"is not a token":                 func(q *dataset.TableWrite) { q.Token = "to\nday" },
		"after the server's":             func(q *dataset.TableWrite) { q.Token = commit.NewToken(time.Now().Add(time.Hour), "") },
	} {
		request := stagetest.Create()
		change(&request)
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
		require.ErrorContains(t, err, text)
		require.NotEmpty(t, fault.As(err).Remedy, "%v", err)
	}
	_, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{Table: stagetest.History, Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}}}))
	_, err = r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Branch: "candidate"}, unread(t, stagetest.Schema()))
	require.ErrorContains(t, err, "cannot begin at main, which has no snapshot")
}

// A new table gets the buckets of the table in Like, even if the key has another name there.
//
// spec: stage-31
func TestNewTablesAreBucketedLikeOthers(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{
		Table: "ml.impressions", Columns: []commit.NewColumn{{ID: 1, Name: "request", Type: "long"}},
		Partition: []commit.PartitionBy{{Column: 1, Name: "b", Transform: "bucket[7]"}},
	}))
	request := stagetest.Create()
	request.Buckets, request.Like = 0, "ml.impressions"
	r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.Equal(t, 7, state.Table.Specs[0][0].Transform.N)
}

// A key may have a name that is not an identifier.
//
// spec: stage-31, write-29
func TestKeysHaveAnyName(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	request := stagetest.Create()
	request.Key = []string{"request-id é"}
	of := arrow.NewSchema([]arrow.Field{{Name: "request-id é", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	r.Stage(t, request, of, `[{"request-id é": 7}, {"request-id é": null}]`)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, of, `[{"request-id é": 8}]`)
	require.ElementsMatch(t, []string{"7", array.NullValueStr, "8"}, r.Column(t, "", "request-id é"))
	for _, f := range r.Listed(t, "") {
		require.Len(t, f.Partition, 1)
	}
}

// spec: stage-38
func TestDryRunsWriteNothing(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	request := stagetest.Create()
	request.DryRun = true
	out := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.True(t, out.Created)
	require.EqualValues(t, 4, out.Rows)
	_, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	before := r.Parquet(t)
	out = r.Stage(t, dataset.TableWrite{Table: stagetest.History, DryRun: true, Mode: dataset.WriteReplace}, stagetest.Schema(), stagetest.Few)
	require.Zero(t, out.Snapshot)
	require.Equal(t, len(before), out.Removed)
	require.Equal(t, before, r.Parquet(t))
	require.Zero(t, r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[]`).Snapshot)
}

// A call without rows creates no table, column or branch.
//
// spec: stage-38
func TestCallsWithoutRowsWriteNothing(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	out := r.Stage(t, stagetest.Create(), stagetest.Schema(), `[]`)
	require.False(t, out.Created)
	require.Zero(t, out.Snapshot)
	_, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	first := r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	more := arrow.NewSchema(append(stagetest.Schema().Fields(), arrow.Field{Name: "rank", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), nil)
	out = r.Stage(t, dataset.TableWrite{Table: stagetest.History, Evolve: true, Branch: "candidate"}, more, `[]`)
	require.Zero(t, out.Snapshot)
	require.Empty(t, out.Added)
	_, err = r.Tables.State(t.Context(), stagetest.History, "candidate")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	state, err := r.Tables.State(t.Context(), stagetest.History, "")
	require.NoError(t, err)
	require.Equal(t, first.Snapshot, state.Table.Pin.Snapshot)
	_, ok := state.Table.Field("rank")
	require.False(t, ok)
}

// Whichever storage call fails, the table is unchanged and no file remains.
//
// spec: stage-40
func TestFailuresLeaveNothing(t *testing.T) {
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish, errstore.Create} {
		for nth := 1; nth <= 2; nth++ {
			t.Run(fmt.Sprint(call, " ", nth), func(t *testing.T) {
				r := stagetest.New(t, stagetest.Unlimited, nil)
				r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
				snapshot, before := r.Listed(t, ""), r.Parquet(t)
				failing := r.Broken(t, errstore.Rule{Call: call, Nth: nth, Action: errstore.Fail(nil)})
				request := dataset.TableWrite{Table: stagetest.History, Token: commit.NewToken(time.Now(), "again")}
				_, err := failing.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
				require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
				require.False(t, commit.Uncertain(err))
				require.Equal(t, snapshot, r.Listed(t, ""))
				require.Equal(t, before, r.Parquet(t))
				r.Stage(t, request, stagetest.Schema(), stagetest.Few)
				require.Len(t, r.Column(t, "", "id"), 8)
			})
		}
	}
	t.Run("input", func(t *testing.T) {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		broken := errors.New("the input broke")
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, stagetest.Create(), batch.FromFunc(stagetest.Schema(), func() (arrow.RecordBatch, error) { return nil, broken }, nil))
		require.ErrorIs(t, err, broken)
		_, err = r.Tables.State(t.Context(), stagetest.History, "")
		require.Equal(t, fault.NotFound, fault.KindOf(err))
	})
}

// A call that is canceled while rows are read or written leaves no files.
//
// spec: stage-40
func TestCallersThatLeave(t *testing.T) {
	for name, now := range map[string]func(datafile.Progress) bool{
		"reading": func(datafile.Progress) bool { return true },
		"writing": func(at datafile.Progress) bool { return at.RowsWritten > 0 },
		"between": func(at datafile.Progress) bool { return at.Files > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := stagetest.New(t, stagetest.Unlimited, nil)
			r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
			before := r.Parquet(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := stage.CallOptions{Progress: func(at datafile.Progress) {
				if now(at) {
					cancel()
				}
			}}
			_, err := r.Stager.Stage(ctx, o, dataset.TableWrite{Table: stagetest.History, Again: new(true)}, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, before, r.Parquet(t))
			require.Len(t, r.Column(t, "", "id"), 4)
		})
	}
}

// If it is unknown whether a change was made, its files stay and the call can be repeated.
//
// spec: stage-41
func TestUncertainChangesAreRepeated(t *testing.T) {
	for _, made := range []bool{false, true} {
		r := stagetest.New(t, stagetest.Unlimited, nil)
		r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
		before := len(r.Parquet(t))
		r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
			if made {
				_, err := r.Tables.Catalog.Commit(ctx, change)
				require.NoError(t, err)
			}
			return commit.Committed{}, commit.AsUncertain(fault.New(fault.Unavailable, "the answer is lost"))
		}
		request := dataset.TableWrite{Table: stagetest.History, Token: commit.NewToken(time.Now(), "lost")}
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, request, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
		require.True(t, commit.Uncertain(err))
		require.Contains(t, fault.As(err).Remedy, request.Token)
		require.Greater(t, len(r.Parquet(t)), before)
		r.Tables.OnCommit = nil
		require.Equal(t, made, r.Stage(t, request, stagetest.Schema(), stagetest.Few).Existed)
		require.Len(t, r.Column(t, "", "id"), 8)
	}
}

// If another call with the same token commits first, this call removes its files and returns the
// other's change.
//
// spec: stage-33
func TestEqualTokensCommitOnce(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	request := dataset.TableWrite{Table: stagetest.History, Token: commit.NewToken(time.Now(), "twin")}
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.Tables.OnCommit = nil
		r.Stage(t, request, stagetest.Schema(), stagetest.Few)
		return r.Tables.Catalog.Commit(ctx, change)
	}
	out := r.Stage(t, request, stagetest.Schema(), stagetest.Few)
	require.Equal(t, stage.WriteResult{Token: request.Token, Snapshot: out.Snapshot, Parent: out.Parent, Existed: true}, out)
	require.Len(t, r.Column(t, "", "id"), 8)
	require.Len(t, r.Parquet(t), len(r.Listed(t, "")))
}

// More rows than the budget holds are sorted on local disk and divided into files.
//
// spec: stage-42
func TestMoreRowsThanMemory(t *testing.T) {
	const limit, batches, size = 48 << 20, 40, 4096
	r := stagetest.New(t, limit, nil)
	n := 0
	many := batch.FromFunc(stagetest.Schema(), func() (arrow.RecordBatch, error) {
		if n == batches {
			return nil, nil
		}
		n++
		var text strings.Builder
		for i := range size {
			fmt.Fprintf(&text, "%c{\"id\": %d, \"items\": [%[2]d], \"country\": \"%0400d\"}", ",["[min(1, max(0, 1-i))], (i*batches+n)*7919%(size*batches), i)
		}
		one := stagetest.Rows(t, stagetest.Schema(), text.String()+"]")
		require.True(t, one.Next())
		return one.RecordBatch(), nil
	}, nil)
	request := stagetest.Create()
	request.Buckets = 2
	progress := 0
	o := stage.CallOptions{Progress: func(datafile.Progress) { progress++ }}
	ctx, entered := r.Budget.Enter(t.Context(), "test")
	defer entered.Release()
	out, err := r.Stager.Stage(ctx, o, request, many)
	require.NoError(t, err)
	require.EqualValues(t, batches*size, out.Rows)
	require.Positive(t, progress)
	require.LessOrEqual(t, r.Budget.Peak(), int64(limit))
	rows := int64(0)
	for _, f := range r.Listed(t, "") {
		rows += f.Rows
	}
	require.EqualValues(t, batches*size, rows)
	ids := r.Column(t, "", "id")
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), batches*size)
}

// spec: stage-43
func TestPyIcebergReadsStagedTables(t *testing.T) {
	interpreter := stagetest.Python(t)
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	more := arrow.NewSchema(append(stagetest.Schema().Fields(), arrow.Field{Name: "rank", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), nil)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Evolve: true}, more, `[{"id": 9, "rank": 5}]`)
	out, err := exec.CommandContext(t.Context(), interpreter, "-c", `
import sys
from pyiceberg.catalog.sql import SqlCatalog
t = SqlCatalog("default", uri="sqlite:///" + sys.argv[1] + "/catalog.db").load_table("ml.history")
rows = sorted(t.scan().to_arrow().to_pylist(), key=lambda r: (r["id"] is None, r["id"]))
print([(r["id"], r["items"], r["country"], r["rank"]) for r in rows])
print(t.scan(row_filter="id == 3").to_arrow().num_rows)
`, r.Dir).CombinedOutput() //nolint:gosec // the interpreter of the tests
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "[(1, [], 'DE', None), (2, [3, None], 'FR', None), (3, [1, 2], 'CH', None), (9, None, None, 5), (None, None, None, None)]\n1\n")
}
