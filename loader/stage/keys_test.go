package stage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// evenKeys is the set of even keys. It counts releases.
type evenKeys struct{ released *int }

func (evenKeys) Contains(_ context.Context, keys arrow.RecordBatch, found []bool) error {
	for row := range found {
		found[row] = keys.Column(0).(*array.Int64).Value(row)%2 == 0
	}
	return nil
}

func (k evenKeys) Release() { *k.released++ }

// Rows are dropped if KeptKeys lacks their key, or if the key has a null. The keys are read after
// the columns are checked and before the rows, but not if an earlier call made the change.
//
// spec: stage-49
func TestRowsWithOtherKeysAreDropped(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	asked, released := 0, 0
	request := stagetest.Create()
	request.Token = commit.NewToken(time.Now(), "even")
	o := stage.CallOptions{OnlyKeys: func(_ context.Context, key []arrow.Field) (stage.KeptKeys, error) {
		require.Equal(t, []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, key)
		asked++
		return evenKeys{&released}, nil
	}}
	staged := func(request dataset.TableWrite, text string) stage.WriteResult {
		out, err := r.Stager.Stage(t.Context(), o, request, stagetest.Rows(t, stagetest.Schema(), text))
		require.NoError(t, err)
		return out
	}
	for range 2 {
		staged(request, stagetest.Few)
	}
	require.Equal(t, []string{"2"}, r.Column(t, "", "id"))
	require.Equal(t, []int{1, 1}, []int{asked, released})

	request.Token, request.Again, request.Evolve, request.AllowDuplicates = "", new(true), true, true
	out := staged(request, stagetest.Few)
	require.Equal(t, []int64{1, 3, 1}, []int64{out.Rows, out.Dropped, out.NullKeys})
	days := stagetest.Create()
	days.Table, days.Partition = "ml.days", []string{"day"}
	require.Positive(t, r.Stage(t, days, stagetest.Schema(), stagetest.Few).Files)
	dropping := request
	dropping.OnlyKeysOf = "clicks"
	dropping.Table, dropping.Mode, dropping.Key = "ml.days", dataset.WriteReplace, []string{"id"}
	_, err := r.Stager.Stage(t.Context(), o, dropping, stagetest.Rows(t, stagetest.Schema(), `[{"id": 1, "day": "2026-10-01"}, {"id": null}]`))
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "none of the 2 rows has a key of a training row of clicks: nothing was written")
	out = staged(dropping, `[]`)
	require.Zero(t, out.Removed)
	require.Zero(t, out.Rows)

	o.OnlyKeys = func(context.Context, []arrow.Field) (stage.KeptKeys, error) { return nil, errors.New("no keys") }
	_, err = r.Stager.Stage(t.Context(), o, request, unread(t, stagetest.Schema()))
	require.ErrorContains(t, err, "no keys")

	require.NoError(t, r.Tables.Create(t.Context(), commit.NewTable{Table: "ml.flat", Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}}}))
	request.Table, request.Key, request.Buckets = "ml.flat", nil, 0
	_, err = r.Stager.Stage(t.Context(), o, request, unread(t, stagetest.Schema()))
	require.ErrorContains(t, err, "no buckets whose columns are the key")

	request.OnlyKeysOf = "clicks"
	_, err = r.Stager.Stage(t.Context(), stage.CallOptions{}, request, unread(t, stagetest.Schema()))
	require.Equal(t, fault.Internal, fault.KindOf(err), "nothing reads the keys")
}
