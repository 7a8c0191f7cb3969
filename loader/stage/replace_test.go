package stage_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// spec: stage-37
func TestPartitionsAreReplaced(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	replace := dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}
	out := r.Stage(t, replace, stagetest.Schema(), `[{"id": 100, "day": "2026-10-01"}]`)
	require.Equal(t, 2, out.Removed) // ids 1 and 3 are in different buckets
	require.ElementsMatch(t, []string{"100", array.NullValueStr, "2"}, r.Column(t, "", "id"))
	out = r.Stage(t, replace, stagetest.Schema(), `[{"id": 200, "day": "2026-10-03"}]`)
	require.Zero(t, out.Removed)
	require.Len(t, r.Column(t, "", "id"), 4)

	r.Tables.Spec = 9 // a spec without days
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, replace, stagetest.Rows(t, stagetest.Schema(), stagetest.Few))
	require.ErrorContains(t, err, "is of an older partition spec")
	require.Len(t, r.Parquet(t), 6)

	bucketed := stagetest.New(t, stagetest.Unlimited, nil)
	bucketed.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	_, err = bucketed.Stager.Stage(t.Context(), stage.CallOptions{}, replace, unread(t, stagetest.Schema()))
	require.ErrorContains(t, err, "would drop all other rows in them, such as those of other days")
}

// Rows that would replace more than twice as many rows are refused, even if other calls commit some
// of the replaced rows concurrently.
//
// spec: stage-112
func TestReplacementsByFewRowsAreRefused(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	three := `[{"id": 1, "day": "2026-10-01"}, {"id": 2, "day": "2026-10-01"}, {"id": 3, "day": "2026-10-01"}]`
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), three)
	before := r.Parquet(t)
	replace := dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}
	one := `[{"id": 4, "day": "2026-10-01"}, {"id": null, "day": "2026-10-02"}]`
	for _, dry := range []bool{true, false} {
		replace.DryRun = dry
		_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, replace, stagetest.Rows(t, stagetest.Schema(), `[{"id": 4, "day": "2026-10-01"}]`))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "1 row would replace 3 rows of table ml.history: fewer than half")
		require.ErrorContains(t, err, "--allow-shrink")
	}
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.Tables.OnCommit = nil
		r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 5, "day": "2026-10-02"}, {"id": 6, "day": "2026-10-02"}]`)
		return r.Tables.Commit(ctx, change)
	}
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, replace, stagetest.Rows(t, stagetest.Schema(), one))
	require.ErrorContains(t, err, "2 rows would replace 5 rows")
	require.Len(t, r.Parquet(t), len(before)+2)
	replace.AllowShrink = true
	out := r.Stage(t, replace, stagetest.Schema(), one)
	require.EqualValues(t, 5, out.RemovedRows)
	require.EqualValues(t, 2, out.Rows)
	require.ElementsMatch(t, []string{"4", array.NullValueStr}, r.Column(t, "", "id"))
}

// A replacement also replaces the rows that another call commits to the partition concurrently.
//
// spec: stage-37, write-30
func TestPartitionsAreReplacedByOneCallAtATime(t *testing.T) {
	for _, before := range []string{`[{"id": 1, "day": "2026-10-01"}]`, `[{"id": 1, "day": "2026-10-09"}]`} {
		for _, mode := range []dataset.WriteMode{dataset.WriteAppend, dataset.WriteReplace} {
			r := stagetest.New(t, stagetest.Unlimited, nil)
			r.Daily(t)
			r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), before)
			r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
				r.Tables.OnCommit = nil
				r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: mode}, stagetest.Schema(), `[{"id": 2, "day": "2026-10-01"}]`)
				return r.Tables.Commit(ctx, change)
			}
			out := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}, stagetest.Schema(), `[{"id": 3, "day": "2026-10-01"}]`)
			require.NotZero(t, out.Removed)
			ids := r.Column(t, "", "id")
			require.Contains(t, ids, "3")
			require.NotContains(t, ids, "2")
			require.Equal(t, strings.Contains(before, "09"), slices.Contains(ids, "1"))
		}
	}
}
